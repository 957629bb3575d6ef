//! The warnings that were logged, so that the same one is not logged every minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The same warning is logged again after this time.
const TELL_AGAIN: Duration = Duration::from_secs(60 * 60);
/// Warnings that are remembered.
const KEPT_MAX: usize = 1000;

/// Warnings, and when they were logged.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<String, Instant>);

impl Told {
    /// Whether a warning was not logged recently.
    pub(super) fn is_news(&mut self, sentence: &str) -> bool {
        self.0.retain(|_, at| at.elapsed() < TELL_AGAIN);
        if self.0.len() >= KEPT_MAX || self.0.contains_key(sentence) {
            return false;
        }
        self.0.insert(sentence.to_owned(), Instant::now());
        true
    }

    pub(super) fn warn(&mut self, table: &str, reason: &str) {
        if self.is_news(&format!("{table}: {reason}")) {
            tracing::warn!(table, reason, "rows of this table are not cleaned");
        }
    }
}
