//! Messages that are not events. Any role can write them, so the number that is kept is bounded.

use std::time::Instant;

/// How many are kept.
const KEPT_MAX: u64 = 1000;

/// How many there are, in the side table or on their way there. Never too few.
pub struct MalformedCount {
    known: u64,
    being_parked: u64,
    /// When one was last known to have arrived in the side table.
    arrived_at: Option<Instant>,
}

impl MalformedCount {
    /// This many are in the side table, and none is on its way.
    pub fn new(kept: u64) -> Self {
        MalformedCount { known: kept, being_parked: 0, arrived_at: None }
    }

    /// Whether no more are kept.
    pub fn is_full(&self) -> bool {
        self.known >= KEPT_MAX
    }

    /// One is on its way into the side table.
    pub fn parked(&mut self) {
        self.known += 1;
        self.being_parked += 1;
    }

    /// It is there.
    pub fn arrived(&mut self, now: Instant) {
        self.being_parked = self.being_parked.saturating_sub(1);
        self.arrived_at = Some(now);
    }

    /// They were counted; the count began at this moment. A count that may lack some is ignored:
    /// too many would be kept. Once the limit is reached nothing more is parked, so there is an
    /// exact count when it is needed.
    pub fn counted(&mut self, kept: u64, began: Instant) {
        if self.being_parked == 0 && self.arrived_at.is_none_or(|at| at < began) {
            self.known = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_count_that_lacks_what_came_meanwhile_makes_no_room() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut malformed = MalformedCount::new(0);
        for _ in 0..KEPT_MAX {
            assert!(!malformed.is_full());
            malformed.parked();
        }
        malformed.counted(0, at(1));
        assert!(malformed.is_full(), "they were on their way");
        for _ in 0..KEPT_MAX {
            malformed.arrived(at(3));
        }
        malformed.counted(KEPT_MAX / 2, at(2));
        assert!(malformed.is_full(), "half of them came while they were counted");
        malformed.counted(KEPT_MAX, at(4));
        assert!(malformed.is_full());
        // Somebody has discarded one.
        malformed.counted(KEPT_MAX - 1, at(5));
        assert!(!malformed.is_full());
    }
}
