//! The record's timestamp: the commit time, kept within what retention and the broker accept.
//!
//! A record stamped older than its topic's retention is acknowledged and deleted at the next check:
//! acknowledged and lost. A stamp too far ahead makes the broker refuse the whole batch. So the
//! stamp is not older than the topic allows by the later of the clocks we know, and not newer than
//! the earlier of them; if both are impossible, a refusal is better than a loss. If a stamp had to
//! be moved, the header `committed-at` has the original.

use std::time::{Duration, UNIX_EPOCH};

use crate::clock::Clocks;
use crate::pgoutput::PgTime;

pub struct Stamp {
    pub timestamp_ms: i64,
    /// The present time, to be tried if the broker refuses that timestamp.
    pub fallback_timestamp_ms: i64,
    /// The original, RFC 3339, if it was moved.
    pub committed_at: Option<String>,
}

pub fn stamp(commit: PgTime, now: Clocks, age_max: Duration) -> Stamp {
    let age_max = i64::try_from(age_max.as_micros()).unwrap_or(i64::MAX);
    let oldest = now.later().saturating_sub(age_max);
    let newest = now.earlier().max(oldest);
    let commit = commit.unix_micros();
    // A clock that runs a little ahead of ours is not worth a header.
    const AHEAD_MICROS: i64 = 1_000_000;
    let held = commit.clamp(oldest, newest);
    let was_moved = held > commit || commit.saturating_sub(held) > AHEAD_MICROS;
    // If it is in the future by one of the clocks, it was refused for that, else for its age.
    let fallback = if held > now.earlier() { now.earlier() } else { now.later() };
    Stamp {
        timestamp_ms: held / 1000,
        fallback_timestamp_ms: fallback / 1000,
        committed_at: was_moved.then(|| rfc3339(commit)),
    }
}

/// Within the years that RFC 3339 can write; humantime does not support those before 1970.
pub fn rfc3339(unix_micros: i64) -> String {
    const YEAR_9999_MICROS: i64 = 253_402_300_799_999_999;
    let within = unix_micros.clamp(0, YEAR_9999_MICROS).unsigned_abs();
    let since_epoch = Duration::from_micros(within);
    humantime::format_rfc3339_micros(UNIX_EPOCH + since_epoch).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOW: i64 = 1_800_000_000_000_000;

    fn check(commit_unix_micros: i64, timestamp_ms: i64, committed_at: Option<&str>) {
        let stamp = stamp(PgTime::from_unix_micros(commit_unix_micros), Clocks::at(NOW, 0), DAY);
        assert_eq!(stamp.timestamp_ms, timestamp_ms);
        assert_eq!(stamp.committed_at.as_deref(), committed_at);
    }

    #[test]
    fn a_recent_commit_keeps_its_time() {
        check(NOW, NOW / 1000, None);
        check(NOW - 86_400_000_000, NOW / 1000 - 86_400_000, None);
    }

    #[test]
    fn an_old_commit_is_held_at_the_bound() {
        let old = NOW - 10 * 86_400_000_000 + 5;
        check(old, NOW / 1000 - 86_400_000, Some("2027-01-05T08:00:00.000005Z"));
    }

    #[test]
    fn a_future_commit_is_held_at_now() {
        check(NOW + 500_000, NOW / 1000, None);
        check(NOW + 7_200_000_000, NOW / 1000, Some("2027-01-15T10:00:00.000000Z"));
    }

    #[test]
    fn no_time_overflows() {
        stamp(PgTime(i64::MIN), Clocks::at(NOW, 0), Duration::MAX);
        stamp(PgTime(i64::MAX), Clocks::at(NOW, i64::MIN), Duration::MAX);
        stamp(PgTime(i64::MAX), Clocks::at(i64::MIN, 0), Duration::ZERO);
    }

    /// The server's clock is right by the first of each, this machine's by the second.
    #[test]
    fn clocks_that_differ_leave_stamps_that_both_allow() {
        const HOUR: i64 = 3_600_000_000;
        let check = |host_ahead: i64, age_max: i64, stamp_at: i64, fallback_at: i64| {
            let clocks = Clocks::at(NOW + host_ahead, -host_ahead);
            let age_max = Duration::from_micros(age_max.unsigned_abs());
            let stamp = stamp(PgTime::from_unix_micros(NOW), clocks, age_max);
            let actual = (stamp.timestamp_ms, stamp.fallback_timestamp_ms);
            assert_eq!(
                actual,
                ((NOW + stamp_at) / 1000, (NOW + fallback_at) / 1000),
                "{host_ahead}"
            );
        };
        // Hours fast or slow, where the topic allows a day.
        check(5 * HOUR, 24 * HOUR, 0, 5 * HOUR);
        check(-5 * HOUR, 24 * HOUR, -5 * HOUR, 0);
        // A week slow: as old as the topic allows, by the later clock.
        check(-168 * HOUR, 24 * HOUR, -24 * HOUR, -168 * HOUR);
        // A week fast: the broker may refuse it, then the earlier clock is tried.
        check(168 * HOUR, 24 * HOUR, 144 * HOUR, 0);
        check(5 * HOUR, HOUR, 4 * HOUR, 0);
        check(HOUR, 0, HOUR, 0);
    }
}
