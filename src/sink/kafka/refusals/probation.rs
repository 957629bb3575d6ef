//! After a refusal in the fast lane: topics have to show that they accept records. No I/O; the
//! clock is an argument.
//!
//! Such a refusal restarts the stream, with that topic in the careful lane. If many topics refused
//! their first record in the fast lane, each would cause a restart; so for a while the first
//! records of every topic go through the careful lane, until one of them is acknowledged. Whether
//! that applies is decided when a session begins: within a session, no topic may change from the
//! fast to the careful lane.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long probation lasts after a refusal.
const PROBATION_LASTS: Duration = Duration::from_secs(60);
/// Topics known to accept records; further ones stay in the careful lane until probation ends.
const PASSED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Probation {
    refused_at: Option<Instant>,
    /// The end of probation in this session; none: it does not apply.
    until: Option<Instant>,
    passed: HashSet<String>,
}

impl Probation {
    /// A session begins.
    pub(super) fn begin_session(&mut self, now: Instant) {
        self.passed.clear();
        self.until = self.refused_at.map(|at| at + PROBATION_LASTS).filter(|until| *until > now);
    }

    /// A record was refused, in either lane.
    pub(super) fn note_refusal(&mut self, now: Instant) {
        self.refused_at = Some(now);
        if self.is_active(now) {
            self.until = Some(now + PROBATION_LASTS);
        }
    }

    /// The careful lane has an acknowledgement for a topic.
    pub(super) fn note_acknowledgement(&mut self, topic: &str) {
        if self.until.is_some() && self.passed.len() < PASSED_MAX && !self.passed.contains(topic) {
            self.passed.insert(topic.to_owned());
        }
    }

    /// Whether a topic has yet to show that it accepts records.
    pub(super) fn applies_to(&self, topic: &str, now: Instant) -> bool {
        self.is_active(now) && !self.passed.contains(topic)
    }

    fn is_active(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_refusal_topics_have_to_pass_for_a_while() {
        let now = Instant::now();
        let mut probation = Probation::default();
        probation.begin_session(now);
        probation.note_refusal(now);
        assert!(!probation.applies_to("a", now), "not in the same session");
        probation.begin_session(now);
        probation.note_acknowledgement("a");
        assert!(!probation.applies_to("a", now) && probation.applies_to("b", now));
        let later = now + PROBATION_LASTS / 2;
        probation.note_refusal(later);
        assert!(
            probation.applies_to("b", now + PROBATION_LASTS)
                && !probation.applies_to("b", later + PROBATION_LASTS)
        );
        probation.note_refusal(later + PROBATION_LASTS);
        assert!(
            !probation.applies_to("b", later + PROBATION_LASTS),
            "it has been in the fast lane since"
        );
        probation.begin_session(later + PROBATION_LASTS);
        assert!(probation.applies_to("a", later + PROBATION_LASTS), "each session starts over");
        probation.begin_session(later + 2 * PROBATION_LASTS);
        assert!(!probation.applies_to("a", later + 2 * PROBATION_LASTS));
    }

    #[test]
    fn of_more_topics_than_are_kept_the_others_are_sent_to_with_care() {
        let now = Instant::now();
        let mut probation = Probation::default();
        probation.note_refusal(now);
        probation.begin_session(now);
        (0..=PASSED_MAX).for_each(|number| probation.note_acknowledgement(&number.to_string()));
        assert!(
            !probation.applies_to("0", now) && probation.applies_to(&PASSED_MAX.to_string(), now)
        );
    }
}
