//! Whether another row may be read: the events in flight are limited, and so are those that a crash
//! repeats.

use super::outgoing::Outgoing;
use crate::config::LimitsConfig;
use crate::sink::Sink;
use postrider_core::ack::{AckTracker, Done};

/// Events that may have been read since the stored position, in addition to those that may be in
/// flight. Storing takes a few milliseconds and partitions acknowledge at different times; but even
/// with a slow disk or a partition without a leader, no more may be published than a kill may
/// repeat.
const UNSTORED_EVENTS_MAX: usize = 1000;
/// The content of an event is in memory twice: as it came, to be parked if it is refused, and as
/// the record that the Kafka client has.
const COPIES: usize = 2;
/// What an event in flight takes in memory in addition to its content, in the relay and in the
/// Kafka client.
const OVERHEAD_BYTES: usize = 1024;
/// What a partition in use takes in the Kafka client: its own state, and a request with a third
/// copy of its events.
const PARTITION_BYTES: usize = 5 * 1024;

impl<S: Sink, P: Copy + Ord> Outgoing<'_, S, P> {
    /// Whether another row may be read.
    pub(crate) fn has_room(&self) -> bool {
        !self.full && self.held_back() == 0
    }

    pub(super) fn update_room(&mut self) {
        let partitions = self.sink.partitions_in_use();
        self.full = is_full(&self.acks, self.stored, self.limits, partitions, self.full);
    }

    /// What is done has been stored.
    pub(crate) fn note_stored(&mut self, done: Done) {
        self.stored = Some(done);
        self.update_room();
    }
}

/// Once full, nothing is read before half of the limits is free again. Filling every gap at once
/// would send batches as small as the acknowledgements, again and again: tiny requests keep the
/// broker busy and the acknowledgements small.
fn is_full<P: Copy + Ord, T>(
    acks: &AckTracker<P, T>,
    stored: Option<Done>,
    limits: &LimitsConfig,
    partitions_in_use: usize,
    was_full: bool,
) -> bool {
    let share = if was_full { 2 } else { 1 };
    let events_max = limits.in_flight_events.among(partitions_in_use).div_ceil(share);
    // However many there are, they leave most of the limit to events.
    let partitions =
        (partitions_in_use.saturating_mul(PARTITION_BYTES)).min(limits.in_flight_bytes / 3);
    let in_memory = partitions + in_memory(acks.in_flight_bytes(), acks.in_flight_events());
    let unstored = stored.map_or(0, |stored| acks.done_since(stored));
    acks.in_flight_events() >= events_max
        || in_memory >= limits.in_flight_bytes.div_ceil(share)
        || acks.span_events() + unstored >= events_max.saturating_add(UNSTORED_EVENTS_MAX)
}

/// What this many bytes of this many events in flight take in memory.
pub(super) fn in_memory(content_bytes: usize, events: usize) -> usize {
    COPIES * content_bytes + events * OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::InFlightEvents;
    use postrider_core::lsn::Lsn;
    use postrider_core::transaction::Position;

    const MIB: usize = 1024 * 1024;
    const ANYWHERE: Position =
        Position { commit_lsn: Lsn::ZERO, change_lsn: Lsn::ZERO, ordinal: 0, in_transaction: 0 };

    /// How many events of a size fill the memory that they may take.
    fn events_that_fill(content_bytes: usize, partitions: usize) -> usize {
        let limits =
            LimitsConfig { in_flight_events: InFlightEvents::Auto, in_flight_bytes: 16 * MIB };
        let mut acks = AckTracker::resume_at(Lsn::ZERO, None);
        while !is_full(&acks, None, &limits, partitions, false) {
            acks.admit(content_bytes, ANYWHERE, ());
        }
        acks.in_flight_events()
    }

    #[test]
    fn an_event_in_flight_takes_its_size_twice() {
        assert_eq!(events_that_fill(MIB, 0), 8);
        assert_eq!(events_that_fill(16 * MIB, 0), 1);
    }

    #[test]
    fn small_events_take_more_than_their_content() {
        assert_eq!(events_that_fill(0, 100), 12_800);
        assert_eq!(events_that_fill(512, 64), 8 * 1024 - 160);
    }

    #[test]
    fn very_many_partitions_leave_room_for_events() {
        assert_eq!(events_that_fill(512, 1_000), 8 * 1024 - 2_500);
        assert_eq!(events_that_fill(512, usize::MAX), (2 * 8 * 1024_usize).div_ceil(3));
    }
}
