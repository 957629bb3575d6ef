//! How many events may be in flight.

/// The setting `limits.in_flight_events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlightEvents {
    /// As many as the partitions in use need. librdkafka sends the records of one partition in a request,
    /// so the same number of events among many partitions means many small requests, which cost a
    /// multiple per event. What is in flight is also what comes again after a kill, so it stays small
    /// while few partitions are in use.
    Auto,
    /// So many.
    Fixed(usize),
}

/// While few partitions are in use.
const FEW: usize = 1_500;
/// For each partition in use.
const PER_PARTITION: usize = 128;
/// Whatever is in use.
const MANY: usize = 16_000;

impl InFlightEvents {
    /// How many, with so many partitions in use.
    pub fn among(self, partitions: usize) -> usize {
        match self {
            InFlightEvents::Auto => partitions.saturating_mul(PER_PARTITION).clamp(FEW, MANY),
            InFlightEvents::Fixed(events) => events,
        }
    }

    /// How many at the most.
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
