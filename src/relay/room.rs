//! Whether another row may be read: what is in flight is bounded, and so is what a crash repeats.

use crate::ack::{AckTracker, Done};
use crate::config::LimitsConfig;

/// Events that may have been read since what is stored, beyond those that may be in flight. Storing takes
/// a few milliseconds and partitions acknowledge at different times; but neither a slow disk nor a
/// partition without a leader may let more be published than a kill may repeat.
const UNSTORED_EVENTS_MAX: usize = 1000;

/// Once full, there is no room before half of it is free again. Filling every gap at once would send
/// batches as small as the acknowledgements, again and again: tiny requests keep the broker busy and the
/// acknowledgements small.
pub(super) fn is_full<T>(
    acks: &AckTracker<T>,
    kept: Option<Done>,
    limits: &LimitsConfig,
    was_full: bool,
) -> bool {
    let share = if was_full { 2 } else { 1 };
    let events_max = limits.in_flight_events.div_ceil(share);
    let unstored = kept.map_or(0, |kept| acks.done_since(kept));
    acks.in_flight_events() >= events_max
        || acks.in_flight_bytes() >= limits.in_flight_bytes.div_ceil(share)
        || acks.span_events() + unstored >= events_max.saturating_add(UNSTORED_EVENTS_MAX)
}
