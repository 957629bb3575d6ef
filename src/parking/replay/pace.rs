//! Limits the rate of a replay.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A batch holds what is due within this time, so that a slow replay is a steady one.
const BATCHES_PER_SECOND: u32 = 10;

pub(super) struct Pace {
    rate: Option<u32>,
    /// When the next batch may leave.
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>) -> Self {
        Pace { rate, next: Instant::now() }
    }

    /// How many events a batch may have.
    pub(super) fn batch_max(&self, most: usize) -> usize {
        let share = self.rate.map_or(u32::MAX, |rate| rate / BATCHES_PER_SECOND);
        usize::try_from(share).unwrap_or(usize::MAX).clamp(1, most)
    }

    pub(super) async fn wait(&self) {
        if self.rate.is_some() {
            sleep_until(self.next).await;
        }
    }

    /// Lost time is not made up for: the rate is a limit, not an average.
    pub(super) fn sent(&mut self, events: usize) {
        if let Some(rate) = self.rate {
            let takes = Duration::from_secs_f64(events as f64 / f64::from(rate.max(1)));
            self.next = Instant::now().max(self.next + takes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_small_where_the_rate_is() {
        for (rate, expect) in [(None, 2000), (Some(1), 1), (Some(15), 1), (Some(500), 50)] {
            assert_eq!(Pace::new(rate).batch_max(2000), expect, "{rate:?}");
        }
        assert_eq!(Pace::new(Some(u32::MAX)).batch_max(2000), 2000);
    }

    #[test]
    fn no_second_has_more_events_than_the_rate() {
        let mut pace = Pace::new(Some(100));
        let began = pace.next;
        for _ in 0..20 {
            pace.sent(10);
        }
        assert!(pace.next - began >= Duration::from_secs(2));
        let mut free = Pace::new(None);
        free.sent(1_000_000);
        assert!(free.next <= Instant::now());
    }
}
