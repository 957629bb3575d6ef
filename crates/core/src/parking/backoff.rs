//! How long to wait before an event is tried again. No I/O; chance is an argument.

use std::time::Duration;

/// The pause after this many attempts: it doubles with each up to `max`, and the wait is uniform in
/// its upper half, so that events that failed together are spread out. `random` returns numbers
/// from 0 to 1.
pub fn delay(
    attempts: u32,
    base: Duration,
    max: Duration,
    mut random: impl FnMut() -> f64,
) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    let delay = base.saturating_mul(1 << doublings).min(max);
    let share = random().clamp(0.0, 1.0);
    let half = delay / 2;
    half + half.mul_f64(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[track_caller]
    fn check(attempts: u32, random: f64, expect: Duration) {
        assert_eq!(delay(attempts, SECOND, 300 * SECOND, || random), expect);
    }

    #[test]
    fn a_pause_doubles_until_it_is_long_enough() {
        for (attempts, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (11, 300)] {
            check(attempts, 1.0, seconds * SECOND);
            check(attempts, 0.0, seconds * SECOND / 2);
            check(attempts, 0.5, seconds * SECOND * 3 / 4);
        }
    }

    #[test]
    fn nothing_overflows() {
        check(0, 1.0, SECOND);
        check(u32::MAX, 1.0, 300 * SECOND);
        check(1, f64::INFINITY, SECOND);
        assert_eq!(delay(u32::MAX, Duration::MAX, Duration::MAX, || 1.0).min(SECOND), SECOND);
    }
}
