//! `[cleaner]`: when rows leave the outbox tables.

use std::time::Duration;

use super::checked::Values;
use super::keys;
use super::meaning;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The cleaner of the outbox tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanerConfig {
    /// False: every row stays.
    pub enabled: bool,
    /// How old a row must be.
    pub retention: Duration,
    /// How often to look.
    pub interval: Duration,
    /// Rows deleted in one transaction.
    pub batch: usize,
}

/// `None`, and what is wrong, if something is.
pub(super) fn check(values: &mut Values<'_>) -> Option<CleanerConfig> {
    let enabled = values.read(&keys::CLEANER_ENABLED, meaning::yes_or_no);
    let retention = values.read(&keys::CLEANER_RETENTION, retention);
    let interval = values.read(&keys::CLEANER_INTERVAL, interval);
    let batch = values.read(&keys::CLEANER_BATCH, batch);
    Some(CleanerConfig {
        enabled: enabled?,
        retention: retention?,
        interval: interval?,
        batch: batch?,
    })
}

/// Not 0: a row that is deleted takes its idempotency key with it.
fn retention(text: &str) -> Result<Duration, String> {
    meaning::duration_within(text, Duration::from_millis(1), 36_525 * DAY)
}

fn interval(text: &str) -> Result<Duration, String> {
    meaning::duration_within(text, Duration::from_millis(100), DAY)
}

/// So many are named in memory, and read by one statement.
fn batch(text: &str) -> Result<usize, String> {
    meaning::number_within(text, 1..=100_000)
}
