//! How long to wait before something that failed is tried again.

use std::time::Duration;

use postrider_core::parking::backoff;

/// Pauses that double with each failure, up to a longest one.
#[derive(Debug)]
pub(crate) struct RetryPause {
    base: Duration,
    max: Duration,
    /// What worked for longer than this begins with the shortest pause again.
    good_after: Duration,
    failures: u32,
}

impl RetryPause {
    pub(crate) const fn new(base: Duration, max: Duration, good_after: Duration) -> Self {
        RetryPause { base, max, good_after, failures: 0 }
    }

    /// The pause after a failure of what had worked for `lasted`.
    pub(crate) fn after_failure(&mut self, lasted: Duration) -> Duration {
        self.forget_if_good(lasted);
        self.failures = self.failures.saturating_add(1);
        self.after(self.failures)
    }

    /// The pause after an end that is not a failure: the shortest. Earlier failures still count.
    pub(crate) fn after_progress(&mut self, lasted: Duration) -> Duration {
        self.forget_if_good(lasted);
        self.after(1)
    }

    /// It works again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    fn forget_if_good(&mut self, lasted: Duration) {
        if lasted > self.good_after {
            self.reset();
        }
    }

    fn after(&self, failures: u32) -> Duration {
        backoff::delay(failures, self.base, self.max, rand::random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(5);
    const GOOD: Duration = Duration::from_secs(10);
    const SHORT: Duration = Duration::ZERO;

    /// Chance takes off at most half.
    #[track_caller]
    fn check(pause: Duration, longest: Duration) {
        assert!((longest / 2..=longest).contains(&pause), "{pause:?} of {longest:?}");
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut pause = RetryPause::new(BASE, MAX, GOOD);
        for times in [1, 2, 4, 8, 16, 32] {
            check(pause.after_failure(SHORT), BASE * times);
        }
        for _ in 0..100 {
            check(pause.after_failure(SHORT), MAX);
        }
    }

    #[test]
    fn what_worked_for_long_begins_again() {
        let mut pause = RetryPause::new(BASE, MAX, GOOD);
        check(pause.after_failure(SHORT), BASE);
        check(pause.after_failure(GOOD), BASE * 2);
        check(pause.after_failure(GOOD + BASE), BASE);
        check(pause.after_failure(SHORT), BASE * 2);
        pause.reset();
        check(pause.after_failure(SHORT), BASE);
    }

    #[test]
    fn progress_waits_little_and_forgives_nothing() {
        let mut pause = RetryPause::new(BASE, MAX, GOOD);
        check(pause.after_failure(SHORT), BASE);
        check(pause.after_failure(SHORT), BASE * 2);
        check(pause.after_progress(SHORT), BASE);
        check(pause.after_failure(SHORT), BASE * 4);
        check(pause.after_progress(GOOD + BASE), BASE);
        check(pause.after_failure(SHORT), BASE);
    }
}
