//! The delivery reports of the producers: what they mean for the relay, and for their topics.

use tokio::sync::mpsc;

use super::KafkaSink;
use crate::sink::kafka::delivery::Delivery;
use crate::sink::kafka::lane::LaneKind;
use crate::sink::kafka::lanes::Lanes;
use postrider_core::delivery::{Broken, Outcome, Reason, Report, Ticket};

impl KafkaSink {
    /// Handles the last reports of the old producers.
    pub(super) fn drain_reports(&mut self, mut deliveries: mpsc::Receiver<Delivery>) {
        while let Ok(delivery) = deliveries.try_recv() {
            if let Some(failure) = delivery.failure.filter(|failure| failure.is_refusal()) {
                self.refusals.add(&failure.topic, &failure.detail);
                if failure.is_about_timestamp() {
                    self.topics.note_refused_timestamp(&failure.topic);
                }
            }
        }
    }

    /// A record was refused alone.
    fn note_refusal(&mut self, topic: &str, outcome: &Outcome) {
        let (Outcome::Retry(refusal) | Outcome::Reject(refusal)) = outcome else { return };
        self.refusals.add(topic, &refusal.detail);
        if [Reason::TOPIC_MISSING, Reason::TOPIC_DENIED].contains(&refusal.reason) {
            self.refusals.close_topic(topic, refusal);
            self.topics.ask(topic);
        }
    }

    pub(super) fn report(&mut self, delivery: Delivery, reports: &mut Vec<Report>) {
        let Delivery { lane, ticket, failure } = delivery;
        let report = match (ticket, failure) {
            (Some(ticket), None) => {
                self.log.clear_error();
                self.reachability.note_answer(self.received_at);
                match lane {
                    LaneKind::Fast => Report::Settled(ticket, Outcome::Ok),
                    LaneKind::Careful => return self.settle_careful(ticket, Outcome::Ok, reports),
                }
            }
            (Some(ticket), Some(failure)) if failure.is_refusal() => {
                let outcome = failure.outcome();
                if failure.is_about_timestamp() {
                    self.topics.note_refused_timestamp(&failure.topic);
                }
                if matches!(outcome, Outcome::Retry(_)) && self.log.is_cluster_denied() {
                    Report::Broken(self.producer_denied(failure.detail))
                } else if lane == LaneKind::Careful {
                    self.note_refusal(&failure.topic, &outcome);
                    return self.settle_careful(ticket, outcome, reports);
                } else {
                    self.refusals.add(&failure.topic, &failure.detail);
                    self.topics.forget(&failure.topic);
                    let text =
                        format!("topic {} rejected records: {}", failure.topic, failure.detail);
                    Report::Broken(Broken { text, refused: true, fix: None })
                }
            }
            (_, Some(failure)) => Report::Broken(Broken::new(failure.detail)),
            (None, None) => Report::Broken(Broken::new("the Kafka client sent an empty report")),
        };
        reports.push(report);
    }

    /// The careful lane has an answer for a record.
    fn settle_careful(&mut self, ticket: Ticket, outcome: Outcome, reports: &mut Vec<Report>) {
        let Some(Lanes { careful: Some(lane), careful_queues, .. }) = &mut self.lanes else {
            return;
        };
        if let (Outcome::Ok, Some(topic)) = (&outcome, careful_queues.topic(ticket)) {
            self.refusals.note_acknowledgement(topic);
        }
        let facts = |topic: &str| self.topics.facts(topic);
        match careful_queues.settle(lane, ticket, outcome, facts, reports) {
            Ok(Some(topic)) => self.ready_topics.push(&topic),
            Ok(None) => {}
            Err(broken) => reports.push(Report::Broken(broken)),
        }
    }
}
