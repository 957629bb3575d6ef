//! Percentiles of measured durations.

use std::time::Duration;

pub struct Percentiles {
    sorted: Vec<Duration>,
}

impl Percentiles {
    pub fn of(mut durations: Vec<Duration>) -> Percentiles {
        durations.sort_unstable();
        Percentiles { sorted: durations }
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The smallest duration that at least `percent` of all do not exceed; zero without durations.
    pub fn at(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        self.sorted.get(rank - 1).copied().unwrap_or_default()
    }

    pub fn max(&self) -> Duration {
        self.at(100)
    }
}
