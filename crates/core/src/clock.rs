//! The time by the two clocks that postrider knows: this machine's and the database server's.
//!
//! The clock that decides is the broker's, which can't be queried. If the two agree, they are
//! trusted. If they don't, it is unknown which one is wrong, so timestamps are kept within what
//! both allow (ADR 23).

use std::time::Duration;

/// Clocks that differ by less than this agree: no clock is exact, and neither is the comparison.
pub const AGREE_WITHIN: Duration = Duration::from_secs(5);

/// This moment, in microseconds of the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    host: i64,
    server: i64,
}

impl Clocks {
    /// This moment by this machine's clock, where the server's is ahead of it by this much.
    pub fn at(host_unix_micros: i64, server_ahead_micros: i64) -> Self {
        let ahead = if agree(server_ahead_micros) { 0 } else { server_ahead_micros };
        Clocks { host: host_unix_micros, server: host_unix_micros.saturating_add(ahead) }
    }

    /// By the clock that is behind.
    pub fn earlier(self) -> i64 {
        self.host.min(self.server)
    }

    /// By the clock that is ahead.
    pub fn later(self) -> i64 {
        self.host.max(self.server)
    }

    /// By the server's clock, which stamps commits.
    pub fn server(self) -> i64 {
        self.server
    }
}

pub fn agree(server_ahead_micros: i64) -> bool {
    Duration::from_micros(server_ahead_micros.unsigned_abs()) < AGREE_WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_are_none() {
        let check = |ahead: i64, earlier: i64, later: i64| {
            let clocks = Clocks::at(100_000_000, ahead);
            assert_eq!((clocks.earlier(), clocks.later()), (earlier, later), "{ahead}");
        };
        check(0, 100_000_000, 100_000_000);
        check(4_999_999, 100_000_000, 100_000_000);
        check(-4_999_999, 100_000_000, 100_000_000);
        check(5_000_000, 100_000_000, 105_000_000);
        check(-5_000_000, 95_000_000, 100_000_000);
        Clocks::at(i64::MAX, i64::MAX);
        Clocks::at(i64::MIN, i64::MIN);
    }
}
