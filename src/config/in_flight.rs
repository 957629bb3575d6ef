//! How many events may be in flight.

/// The setting `limits.in_flight_events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlightEvents {
    /// As many as the partitions in use need. librdkafka sends the records of one partition in a
    /// request, so the same number of events spread over many partitions means many small requests,
    /// which cost several times as much per event. Events in flight are also published again after
    /// a kill, so their number stays small while few partitions are in use.
    Auto,
    /// This number.
    Fixed(usize),
}

/// Events in flight while few partitions are in use.
const FEW: usize = 1_500;
/// Events in flight for each partition in use.
const PER_PARTITION: usize = 128;
/// Events in flight however many partitions are in use.
const MANY: usize = 16_000;

impl InFlightEvents {
    /// The number of events, if this many partitions are in use.
    pub fn among(self, partitions: usize) -> usize {
        match self {
            InFlightEvents::Auto => partitions.saturating_mul(PER_PARTITION).clamp(FEW, MANY),
            InFlightEvents::Fixed(events) => events,
        }
    }

    /// The largest number of events.
    pub fn max(self) -> usize {
        self.among(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_partitions_need_more() {
        let check = |partitions, expect| {
            assert_eq!(InFlightEvents::Auto.among(partitions), expect, "{partitions}");
            assert_eq!(InFlightEvents::Fixed(7).among(partitions), 7);
        };
        check(0, 1_500);
        check(6, 1_500);
        check(100, 12_800);
        check(1_000_000, 16_000);
        assert_eq!(InFlightEvents::Auto.max(), 16_000);
    }
}
