//! What refused records have shown about topics: which of them need the careful lane, and which
//! need not be tried.

mod careful_topics;
mod closed_topics;
mod probation;

use std::time::Instant;

use self::careful_topics::CarefulTopics;
use self::closed_topics::ClosedTopics;
use self::probation::Probation;
use postrider_core::delivery::Refusal;

#[derive(Default)]
pub(super) struct Refusals {
    careful: CarefulTopics,
    /// Topics that have not shown yet that they accept records.
    probation: Probation,
    closed: ClosedTopics,
}

impl Refusals {
    pub(super) fn begin_session(&mut self, now: Instant) {
        self.careful.forget_old(now);
        self.probation.begin_session(now);
        self.closed.forget_old(now);
    }

    /// Whether records of this topic have to go through the careful lane.
    pub(super) fn require_care(&self, topic: &str, now: Instant) -> bool {
        self.careful.has(topic, now) || self.probation.applies_to(topic, now)
    }

    /// Why a topic is not tried now, if so.
    pub(super) fn closed_topic(&self, topic: &str, now: Instant) -> Option<Refusal> {
        self.closed.refusal(topic, now)
    }

    /// A record was refused, in either lane.
    pub(super) fn add(&mut self, topic: &str, reason: &str) {
        let now = Instant::now();
        self.probation.note_refusal(now);
        if let Some(care) = self.careful.note_refusal(topic, now) {
            tracing::warn!(
                topic,
                reason,
                "the broker rejected a record; this topic's records go through the careful lane \
                 for {} s",
                care.seconds()
            );
        }
    }

    /// A record was refused for its topic, which is not tried for a moment.
    pub(super) fn close_topic(&mut self, topic: &str, refusal: &Refusal) {
        self.closed.close(topic, refusal, Instant::now());
    }

    /// A record was acknowledged in the careful lane.
    pub(super) fn note_acknowledgement(&mut self, topic: &str) {
        self.probation.note_acknowledgement(topic);
    }
}
