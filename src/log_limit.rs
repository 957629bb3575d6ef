//! Keeps the same sentence from being logged again and again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Sentences that are remembered at a time.
const SENTENCES_MAX: usize = 1000;

/// The sentences that were logged within an interval, and when.
#[derive(Debug)]
pub(crate) struct LogLimit {
    interval: Duration,
    memory: Memory,
    logged: HashMap<String, Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Memory {
    Each,
    Last,
}

impl LogLimit {
    /// Each sentence is logged at most once per interval. If there are too many to remember, others
    /// are not logged until one of them may be logged again.
    pub(crate) fn each(interval: Duration) -> Self {
        LogLimit { interval, memory: Memory::Each, logged: HashMap::new() }
    }

    /// A sentence is logged if it differs from the one that was logged last, or after the interval.
    pub(crate) fn changes(interval: Duration) -> Self {
        LogLimit { interval, memory: Memory::Last, logged: HashMap::new() }
    }

    /// Whether to log the sentence now. If so, it counts as logged.
    pub(crate) fn allows(&mut self, sentence: &str, now: Instant) -> bool {
        self.logged.retain(|_, at| now.saturating_duration_since(*at) < self.interval);
        if self.logged.contains_key(sentence) {
            return false;
        }
        if self.memory == Memory::Last {
            self.logged.clear();
        }
        if self.logged.len() >= SENTENCES_MAX {
            return false;
        }
        self.logged.insert(sentence.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn each_sentence_is_logged_once_per_interval() {
        let mut limit = LogLimit::each(MINUTE);
        let start = Instant::now();
        assert!(limit.allows("a", start));
        assert!(limit.allows("b", start + MOMENT));
        assert!(
            !limit.allows("a", start + MINUTE - MOMENT),
            "it does not matter what came between"
        );
        assert!(limit.allows("a", start + MINUTE), "the interval counts from when it was logged");
        assert!(!limit.allows("b", start + MINUTE));
        assert!(limit.allows("b", start + MINUTE + MOMENT));
    }

    #[test]
    fn changes_are_logged_at_once() {
        let mut limit = LogLimit::changes(MINUTE);
        let start = Instant::now();
        assert!(limit.allows("a", start));
        assert!(!limit.allows("a", start + MOMENT));
        assert!(limit.allows("b", start + MOMENT));
        assert!(limit.allows("a", start + MOMENT));
        assert!(!limit.allows("a", start + MINUTE));
        assert!(limit.allows("a", start + MINUTE + MOMENT));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut limit = LogLimit::each(MINUTE);
        let start = Instant::now();
        for number in 0..SENTENCES_MAX {
            assert!(limit.allows(&number.to_string(), start));
        }
        assert!(!limit.allows("one more", start + MOMENT));
        assert!(limit.allows("one more", start + MINUTE));
        assert_eq!(limit.logged.len(), 1);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_repeats_nothing() {
        let mut limit = LogLimit::each(MINUTE);
        let now = Instant::now() + MINUTE;
        assert!(limit.allows("a", now));
        assert!(!limit.allows("a", now));
        assert!(!limit.allows("a", now - MOMENT));
    }
}
