//! Whether another row may be read: what is in flight is bounded, and so is what a crash repeats.

use crate::ack::{AckTracker, Done};
use crate::config::LimitsConfig;

/// Events that may have been read since what is stored, beyond those that may be in flight. Storing takes
/// a few milliseconds and partitions acknowledge at different times; but neither a slow disk nor a
/// partition without a leader may let more be published than a kill may repeat.
const UNSTORED_EVENTS_MAX: usize = 1000;
/// What an event in flight takes in memory besides its content.
const OVERHEAD_BYTES: usize = 512;

/// Once full, there is no room before half of it is free again. Filling every gap at once would send
/// batches as small as the acknowledgements, again and again: tiny requests keep the broker busy and the
/// acknowledgements small.
pub(super) fn is_full<T>(
    acks: &AckTracker<T>,
    kept: Option<Done>,
    limits: &LimitsConfig,
    partitions_in_use: usize,
    was_full: bool,
) -> bool {
    let share = if was_full { 2 } else { 1 };
    let events_max = limits.in_flight_events.among(partitions_in_use).div_ceil(share);
    let in_memory = acks.in_flight_bytes() + acks.in_flight_events() * OVERHEAD_BYTES;
    let unstored = kept.map_or(0, |kept| acks.done_since(kept));
    acks.in_flight_events() >= events_max
        || in_memory >= limits.in_flight_bytes.div_ceil(share)
        || acks.span_events() + unstored >= events_max.saturating_add(UNSTORED_EVENTS_MAX)
}
