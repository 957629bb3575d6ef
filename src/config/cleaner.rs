//! `[cleaner]`: when rows are deleted from the outbox tables.

use std::time::Duration;

use super::checked::Values;
use super::keys;
use super::parse;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The cleaner of the outbox tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanerConfig {
    /// False: all rows stay.
    pub enabled: bool,
    /// How old a row must be.
    pub retention: Duration,
    /// How often rows are searched for.
    pub interval: Duration,
    /// Rows examined together.
    pub batch: usize,
}

/// `None` if something is wrong, which is then among the problems.
pub(super) fn check(values: &mut Values<'_>) -> Option<CleanerConfig> {
    let enabled = values.read(&keys::CLEANER_ENABLED, parse::yes_or_no);
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

/// Not 0: when a row is deleted, its idempotency key can be used again.
fn retention(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::from_millis(1), 36_525 * DAY)
}

fn interval(text: &str) -> Result<Duration, String> {
    parse::duration_within(text, Duration::from_millis(100), DAY)
}

/// The rows of a batch are held in memory, and read by one statement.
fn batch(text: &str) -> Result<usize, String> {
    parse::number_within(text, 1..=100_000)
}
