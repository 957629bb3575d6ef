//! What people were told, so that the same is not told every minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The same sentence is told again after this long.
const TELL_AGAIN: Duration = Duration::from_secs(60 * 60);
/// Sentences kept in mind.
const KEPT_MAX: usize = 1000;

/// Sentences and when they were told.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<String, Instant>);

impl Told {
    /// Whether a sentence is news.
    pub(super) fn is_news(&mut self, sentence: &str) -> bool {
        self.0.retain(|_, at| at.elapsed() < TELL_AGAIN);
        if self.0.len() >= KEPT_MAX || self.0.contains_key(sentence) {
            return false;
        }
        self.0.insert(sentence.to_owned(), Instant::now());
        true
    }

    /// Warns, if it is news.
    pub(super) fn warn(&mut self, table: &str, reason: &str) {
        if self.is_news(&format!("{table}: {reason}")) {
            tracing::warn!(table, reason, "rows of this table are not cleaned");
        }
    }
}
