//! The time by the two clocks that postrider knows: this machine's and the database server's.
//!
//! Neither is the clock that decides, which is the broker's and can't be asked for. Where the two agree
//! they are believed. Where they don't, nobody can tell which one is wrong, so timestamps are kept
//! where both allow them (ADR 23).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, GenericClient, ToStatement};

/// Clocks that differ by less than this agree: no clock is exact, and neither is the comparison.
pub(crate) const AGREE_WITHIN: Duration = Duration::from_secs(5);
/// An answer that took longer says little about the time.
const ANSWER_WITHIN_MICROS: i64 = 2_000_000;

/// What the server is asked for its time.
pub(crate) const QUESTION: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// This moment, in microseconds of the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    host: i64,
    server: i64,
}

impl Clocks {
    /// The present time, where the server's clock is ahead of this machine's by so much.
    pub(crate) fn read(server_ahead_micros: i64) -> Self {
        Clocks::at(unix_micros(), server_ahead_micros)
    }

    pub(crate) fn at(host_unix_micros: i64, server_ahead_micros: i64) -> Self {
        let ahead = if agree(server_ahead_micros) { 0 } else { server_ahead_micros };
        Clocks { host: host_unix_micros, server: host_unix_micros.saturating_add(ahead) }
    }

    /// By the clock that is behind.
    pub(crate) fn earlier(self) -> i64 {
        self.host.min(self.server)
    }

    /// By the clock that is ahead.
    pub(crate) fn later(self) -> i64 {
        self.host.max(self.server)
    }

    /// By the server's clock, which commits are stamped by.
    pub(crate) fn server(self) -> i64 {
        self.server
    }
}

pub(crate) fn agree(server_ahead_micros: i64) -> bool {
    Duration::from_micros(server_ahead_micros.unsigned_abs()) < AGREE_WITHIN
}

/// By how much the server's clock is ahead of this machine's. None: the answer took too long.
pub(crate) async fn server_ahead_micros(
    client: &impl GenericClient,
    question: &(impl ToStatement + ?Sized + Sync + Send),
) -> Result<Option<i64>, Error> {
    let asked = unix_micros();
    let nothing: &[&(dyn ToSql + Sync)] = &[];
    let server: i64 = client.query_one(question, nothing).await?.try_get(0)?;
    let took = unix_micros().saturating_sub(asked);
    let middle = asked.saturating_add(took / 2);
    Ok((0..=ANSWER_WITHIN_MICROS).contains(&took).then(|| server.saturating_sub(middle)))
}

pub(crate) fn unix_micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
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
