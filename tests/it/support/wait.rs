//! Waiting for a condition instead of sleeping for a guess.

use std::time::{Duration, Instant};

const STEP_MIN: Duration = Duration::from_millis(10);
const STEP_MAX: Duration = Duration::from_millis(100);

/// Polls `condition` until it holds; a test that waits in vain fails with the name of what it
/// waited for.
#[track_caller]
pub fn wait_until(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, within, || condition().then_some(()));
}

/// Like [`wait_until`], for a condition that yields something.
#[track_caller]
pub fn wait_for<T>(what: &str, within: Duration, attempt: impl FnMut() -> Option<T>) -> T {
    match poll_for(within, attempt) {
        Some(value) => value,
        None => panic!("waited {within:?} in vain for: {what}"),
    }
}

/// Like [`wait_for`], for a caller that has more to say about the failure.
pub fn poll_for<T>(within: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    let mut step = STEP_MIN;
    loop {
        // The clock is read before the attempt, so that a slow last attempt still counts.
        let last = Instant::now() >= deadline;
        if let Some(value) = attempt() {
            return Some(value);
        }
        if last {
            return None;
        }
        std::thread::sleep(step);
        // Short steps keep quick tests quick; long waits should not burn a core.
        step = (step * 5 / 4).min(STEP_MAX);
    }
}
