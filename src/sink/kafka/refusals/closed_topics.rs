//! Topics that accepted nothing a moment ago. No I/O; the clock is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use postrider_core::delivery::Refusal;

/// How long such a topic is not tried.
const CLOSED_FOR: Duration = Duration::from_secs(5);
/// Topics kept. Records of others are tried, and refused alone.
const CLOSED_MAX: usize = 10_000;

/// Which ones, until when, and why.
#[derive(Debug, Default)]
pub(super) struct ClosedTopics {
    topics: HashMap<String, (Instant, Refusal)>,
}

impl ClosedTopics {
    /// A record was refused for its topic.
    pub(super) fn close(&mut self, topic: &str, refusal: &Refusal, now: Instant) {
        if self.topics.len() >= CLOSED_MAX {
            self.forget_old(now);
        }
        if self.topics.len() < CLOSED_MAX || self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), (now + CLOSED_FOR, refusal.clone()));
        }
    }

    /// Why a topic is not tried now, if so.
    pub(super) fn refusal(&self, topic: &str, now: Instant) -> Option<Refusal> {
        let (_, refusal) = self.topics.get(topic).filter(|(until, _)| *until > now)?;
        Some(refusal.clone())
    }

    /// Forgets those that may be tried again.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.topics.retain(|_, (until, _)| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::delivery::Reason;

    #[test]
    fn a_topic_is_closed_for_a_while_and_of_too_many_the_first_are_known() {
        let now = Instant::now();
        let refusal = Refusal { reason: Reason::TOPIC_DENIED, detail: String::new() };
        let mut closed = ClosedTopics::default();
        (0..=CLOSED_MAX).for_each(|number| closed.close(&number.to_string(), &refusal, now));
        let last = CLOSED_MAX.to_string();
        assert_eq!(closed.topics.len(), CLOSED_MAX);
        assert!(closed.refusal("0", now).is_some() && closed.refusal(&last, now).is_none());
        let later = now + CLOSED_FOR;
        assert!(closed.refusal("0", later).is_none());
        closed.close(&last, &refusal, later);
        assert!(closed.refusal(&last, later).is_some() && closed.topics.len() == 1);
    }
}
