//! What became of a record, as librdkafka reports it.

use rdkafka::types::RDKafkaErrorCode as Code;

use super::classify::classify;
use super::lane::LaneKind;
use postrider_core::delivery::{Class, Outcome, Reason, Refusal, Ticket};

/// What librdkafka reports, passed from its thread to ours.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) lane: LaneKind,
    /// None: it is about the producer as a whole.
    pub(super) ticket: Option<Ticket>,
    pub(super) failure: Option<Box<Failure>>,
}

/// Why a record, or a whole producer, failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    class: Class,
    reason: Reason,
    pub(super) topic: String,
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(code: Code, topic: &str, detail: String) -> Self {
        let (class, reason) = classify(code);
        Failure { class, reason, topic: topic.to_owned(), detail }
    }

    /// Whether it is about the record, or about those sent together with it.
    pub(super) fn is_refusal(&self) -> bool {
        self.class != Class::Transient
    }

    /// Whether a timestamp was refused.
    pub(super) fn is_about_timestamp(&self) -> bool {
        self.reason == Reason::Timestamp
    }

    /// What it means for a record that was sent alone.
    pub(super) fn outcome(&self) -> Outcome {
        let refusal = Refusal { reason: self.reason, detail: self.detail.clone() };
        match self.class {
            Class::Rejected => Outcome::Reject(refusal),
            _ => Outcome::Retry(refusal),
        }
    }
}
