//! Waits for a condition instead of sleeping for a guessed time.

use std::time::{Duration, Instant};

use procfs::{CurrentSI, KernelStats};

/// How many times longer something may take on a machine that gets hardly any CPU time.
const PATIENCE: u32 = 5;
const STEP_MIN: Duration = Duration::from_millis(10);
const STEP_MAX: Duration = Duration::from_millis(100);

/// Polls `condition` until it holds; if it does not in time, the test fails with the name of what
/// it waited for.
#[track_caller]
pub fn wait_until(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, within, || condition().then_some(()));
}

/// Like [`wait_until`], for a condition that yields something.
#[track_caller]
pub fn wait_for<T>(what: &str, within: Duration, attempt: impl FnMut() -> Option<T>) -> T {
    match poll_for(within, attempt) {
        Some(value) => value,
        None => panic!("waited {within:?} without success for: {what}"),
    }
}

/// Like [`wait_for`], for a caller that reports the failure itself.
pub fn poll_for<T>(within: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let mut deadline = Deadline::after(within);
    let mut step = STEP_MIN;
    loop {
        // The clock is read before the attempt, so that a slow last attempt still counts.
        let last = deadline.left().is_zero();
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

/// When to give up. Time that the host gave to other virtual machines does not count, because
/// nothing in this one proceeds meanwhile.
pub struct Deadline {
    at: Instant,
    latest: Instant,
    stolen: Duration,
}

impl Deadline {
    pub fn after(within: Duration) -> Self {
        let now = Instant::now();
        Deadline { at: now + within, latest: now + within * PATIENCE, stolen: stolen() }
    }

    /// The time that is left; zero once the deadline has passed.
    pub fn left(&mut self) -> Duration {
        let now = Instant::now();
        if now >= self.at {
            let stolen = stolen();
            self.at = (self.at + stolen.saturating_sub(self.stolen)).min(self.latest);
            self.stolen = stolen;
        }
        self.at.saturating_duration_since(now)
    }
}

/// The time that all processors have lost since the machine started.
fn stolen() -> Duration {
    let stats = KernelStats::current().expect("no /proc/stat");
    stats.total.steal_duration().unwrap_or_default()
}
