//! Whether another row may be read: what is in flight is bounded, and so is what a crash repeats.

use crate::ack::{AckTracker, Done};
use crate::config::LimitsConfig;

/// How many times the events that may be in flight can have been read since the oldest of them. A
/// partition without a leader holds its records for as long as it likes, while others go on: what comes
/// after them is remembered, and repeated after a crash.
const SPAN_SHARES: usize = 4;
/// Events that may be done and not yet stored while everything that may be in flight is. Storing takes a
/// few milliseconds; a slow disk must not let more be published than a kill may repeat.
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
    let reached = |now: usize, max: usize| now >= max.div_ceil(share);
    let in_flight = acks.in_flight_events();
    let unstored = kept.map_or(0, |kept| acks.done_since(kept));
    reached(in_flight, limits.in_flight_events)
        || reached(acks.in_flight_bytes(), limits.in_flight_bytes)
        || reached(acks.span_events(), limits.in_flight_events.saturating_mul(SPAN_SHARES))
        || reached(
            in_flight.saturating_add(unstored),
            limits.in_flight_events.saturating_add(UNSTORED_EVENTS_MAX),
        )
}
