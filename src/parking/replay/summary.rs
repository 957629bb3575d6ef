//! What a replay did, for people and programs.

use std::fmt;

use serde::Serialize;

use crate::parking::dead::printable;
use crate::parking::filter::Filter;
use crate::parking::store::DeadCount;
use crate::plural::plural;
use postrider_core::delivery::Refusal;

/// Kinds of failures that are listed separately.
const FAILURE_KINDS_MAX: usize = 10;

/// Events that failed again, of one topic and for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FailureKind {
    /// Where they go.
    pub topic: String,
    /// Why they can't.
    pub reason: String,
    /// The error of the first of them.
    pub error: String,
    /// How many.
    pub events: u64,
}

/// What a replay did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    /// Events that could be published when it began.
    pub found: u64,
    /// Published.
    pub replayed: u64,
    /// Refused again.
    pub failed: u64,
    /// Why: the first kinds of failures.
    #[serde(rename = "troubles")]
    pub failure_kinds: Vec<FailureKind>,
    /// Not tried: an earlier event of their key is still in the side table.
    pub held: u64,
    /// Not tried: their transactions are not confirmed by the relay.
    pub unconfirmed: u64,
    /// Not tried: the relay does not hold the keys of what was taken over.
    pub unknown: u64,
    /// Not tried: locked by another command, or not dead any more.
    pub busy: u64,
    /// Dead, but not publishable.
    pub fragments: u64,
    /// Requested ids that do not belong to dead events.
    pub not_dead: u64,
    /// It was asked to stop.
    pub stopped: bool,
    /// The connection to the brokers failed.
    #[serde(rename = "broken")]
    pub connection_error: Option<String>,
}

impl Summary {
    pub(super) fn expecting(counts: &[DeadCount], filter: &Filter) -> Self {
        let sum = |publishable| {
            let these = counts.iter().filter(|count| count.publishable == publishable);
            these.map(|count| count.events).sum()
        };
        let (found, fragments): (u64, u64) = (sum(true), sum(false));
        let mut ids = filter.ids.clone().unwrap_or_default();
        ids.sort_unstable();
        ids.dedup();
        let asked = (ids.len() as u64).min(filter.limit.unwrap_or(u64::MAX));
        let not_dead = asked.saturating_sub(found + fragments);
        Summary { found, fragments, not_dead, ..Summary::default() }
    }

    pub(super) fn add_failure(&mut self, topic: &str, refusal: &Refusal) {
        self.failed += 1;
        let same = |it: &&mut FailureKind| it.topic == topic && it.reason == refusal.reason.label();
        if let Some(kind) = self.failure_kinds.iter_mut().find(same) {
            kind.events += 1;
        } else if self.failure_kinds.len() < FAILURE_KINDS_MAX {
            self.failure_kinds.push(FailureKind {
                topic: topic.to_owned(),
                reason: refusal.reason.label().to_owned(),
                error: refusal.detail.clone(),
                events: 1,
            });
        }
    }

    /// How many were handled.
    pub(crate) fn done(&self) -> u64 {
        self.replayed + self.failed + self.held + self.unconfirmed + self.unknown + self.busy
    }

    /// How many were not reached.
    pub(crate) fn left(&self) -> u64 {
        self.found.saturating_sub(self.done())
    }

    /// Whether all that was asked for is published.
    pub(crate) fn is_complete(&self) -> bool {
        self.replayed == self.found
            && self.fragments == 0
            && self.not_dead == 0
            && self.connection_error.is_none()
    }
}

/// One line per result, each with what to do about it.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replayed {} of {}", self.replayed, plural(self.found, "dead event"))?;
        if self.failed > 0 {
            write!(f, "\nfailed again: {}", self.failed)?;
        }
        for FailureKind { topic, reason, error, events } in &self.failure_kinds {
            let (topic, error) = (printable(topic), printable(error));
            write!(f, "\n  {events} to topic {topic}, {reason}: {error}")?;
        }
        let lines = [
            (
                self.held,
                "skipped: an earlier event of the same ordering key is not published yet; replay or \
                 discard that one first, or let these overtake it with --allow-reorder",
            ),
            (
                self.unconfirmed,
                "skipped: the relay has not confirmed their transactions yet; let `postrider run` \
                 confirm them, then replay again",
            ),
            (
                self.unknown,
                "skipped: the relay does not know yet which keys were taken over; replay again in a \
                 moment, or once `postrider run` is stopped",
            ),
            (
                self.busy,
                "skipped: another command is processing them, or has finished them; run replay \
                 again",
            ),
            (
                self.fragments,
                "can't be published as they are, because no record could be made of their rows: \
                 correct what writes such rows, insert corrected ones, then discard these",
            ),
            (self.not_dead, "of the given ids not found among the dead events of this slot"),
            (self.left(), "left: run replay again"),
        ];
        for (events, what) in lines.iter().filter(|(events, _)| *events > 0) {
            write!(f, "\n{events} {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::delivery::Reason;

    fn count(publishable: bool, events: u64) -> DeadCount {
        DeadCount { topic: "t".to_owned(), reason: "refused".to_owned(), publishable, events }
    }

    #[test]
    fn it_is_complete_when_everything_is_published() {
        let counts = [count(true, 2), count(true, 3)];
        let mut summary = Summary::expecting(&counts, &Filter::default());
        assert_eq!((summary.found, summary.left(), summary.is_complete()), (5, 5, false));
        summary.replayed = 5;
        assert!(summary.is_complete());
        assert_eq!(summary.to_string(), "replayed 5 of 5 dead events");
        assert!(Summary::expecting(&[], &Filter::default()).is_complete());
        assert!(!Summary::expecting(&[count(false, 1)], &Filter::default()).is_complete());
    }

    #[test]
    fn ids_that_are_not_dead_are_missed_once_each() {
        let filter = Filter { ids: Some(vec![1, 2, 2, 3]), ..Filter::default() };
        assert_eq!(Summary::expecting(&[count(true, 1)], &filter).not_dead, 2);
        let filter = Filter { limit: Some(1), ..filter };
        assert_eq!(Summary::expecting(&[count(true, 1)], &filter).not_dead, 0);
    }

    #[test]
    fn failures_are_listed_by_kind_and_each_number_has_a_fix() {
        let mut summary = Summary { found: 30, held: 2, fragments: 1, ..Summary::default() };
        for number in 0..20 {
            let refusal = Refusal { reason: Reason::TopicMissing, detail: format!("no {number}") };
            summary.add_failure(&format!("t{}", number % 12), &refusal);
        }
        assert_eq!((summary.failed, summary.failure_kinds.len()), (20, FAILURE_KINDS_MAX));
        let text = summary.to_string();
        let expect = [
            "failed again: 20",
            "2 to topic t0, topic-missing: no 0",
            "--allow-reorder",
            "discard",
        ];
        for part in expect.into_iter().chain(["8 left"]) {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn its_text_has_no_control_characters() {
        let mut summary = Summary { found: 1, ..Summary::default() };
        let detail = "a broker's \u{1b}[2J word".to_owned();
        summary.add_failure("t\r", &Refusal { reason: Reason::TopicMissing, detail });
        assert!(!summary.to_string().contains(['\u{1b}', '\r']), "{summary:?}");
    }
}
