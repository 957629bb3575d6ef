//! The one place that says what an error means for an event, and so who has to act.
//!
//! In doubt, an event is tried again: an error nobody thought of never condemns it. The table in
//! docs/undelivered.md says the same for people.

use rdkafka::types::RDKafkaErrorCode as Code;
use tokio_postgres::error::SqlState;

use crate::outbox::{LayoutError, RowFault};

/// Who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nobody: the way broke and mends by itself. It says nothing about the event.
    Transient,
    /// Somebody, elsewhere: the event can't be published now, for a reason that can pass.
    Retryable,
    /// Its writer: the event will never be published as it is.
    Rejected,
    /// The operator of the relay: nothing can be published.
    Fatal,
}

impl Class {
    /// The label of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Class::Transient => "transient",
            Class::Retryable => "retryable",
            Class::Rejected => "rejected",
            Class::Fatal => "fatal",
        }
    }
}

/// What became of an event at its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable there.
    Ok,
    /// It was refused, alone, for a reason that can pass.
    Retry(Refusal),
    /// It was refused, alone, for what it is.
    Reject(Refusal),
}

/// Why an event is not wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In a word.
    pub reason: Reason,
    /// In a sentence, or in the destination's words. Never holds the payload.
    pub detail: String,
}

/// Why an event was parked, in a word: the column `reason` of `postrider.undelivered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub &'static str);

impl Reason {
    /// Larger than its topic takes.
    pub const TOO_LARGE: Self = Reason("too-large");
    /// No name for a topic.
    pub const ILLEGAL_TOPIC: Self = Reason("illegal-topic");
    /// A required column is NULL.
    pub const COLUMN_NULL: Self = Reason("column-null");
    /// A column that does not hold what was promised.
    pub const COLUMN_UNREADABLE: Self = Reason("column-unreadable");
    /// Headers that are no object, or have names that can't be sent.
    pub const BAD_HEADERS: Self = Reason("bad-headers");
    /// A partition that can't be.
    pub const BAD_PARTITION: Self = Reason("bad-partition");
    /// A message that is no event.
    pub const MALFORMED: Self = Reason("malformed");
    /// There is no such topic.
    pub const TOPIC_MISSING: Self = Reason("topic-missing");
    /// Its topic has fewer partitions.
    pub const PARTITION_MISSING: Self = Reason("partition-missing");
    /// Its topic may not be written to.
    pub const TOPIC_DENIED: Self = Reason("topic-denied");
    /// Its topic does not take its timestamp.
    pub const TIMESTAMP: Self = Reason("timestamp-refused");
    /// Refused for another reason.
    pub const REFUSED: Self = Reason("refused");
    /// Its value was too large to be copied, and is not in the outbox any more.
    pub const VALUE_MISSING: Self = Reason("value-missing");
    /// Postgres does not store it as it is: a character, say, that the database's encoding lacks.
    pub const UNSTORABLE: Self = Reason("unstorable");
    /// It waits behind an event of its ordering key.
    pub const BEHIND: Self = Reason("behind");
}

/// What a fault of a row means: it is in the log for ever, so trying again can't help. A topic's
/// limit could be raised, but whoever does that can replay.
pub fn of_fault(fault: &RowFault) -> (Class, Reason) {
    let reason = match fault {
        RowFault::Null(_) | RowFault::Absent(_) => Reason::COLUMN_NULL,
        RowFault::NotText(_) | RowFault::Unreadable { .. } | RowFault::ValueMissing(_) => {
            Reason::COLUMN_UNREADABLE
        }
        RowFault::IllegalTopic => Reason::ILLEGAL_TOPIC,
        RowFault::HeadersNotObject | RowFault::HeaderName => Reason::BAD_HEADERS,
        RowFault::NegativePartition(_) => Reason::BAD_PARTITION,
        RowFault::Malformed(_) => Reason::MALFORMED,
        RowFault::TooLarge { .. } | RowFault::ColumnTooLarge { .. } => Reason::TOO_LARGE,
    };
    (Class::Rejected, reason)
}

/// Whether Postgres refuses to store what an event holds, and would do so again: a character that the
/// database's encoding lacks (22), a rule of the table (23), a size (54). Anything else may pass. So does
/// a number that was given out twice: the next session moves the sequence on, and the event is good.
pub fn is_about_content(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(refuses_content)
}

fn refuses_content(code: &SqlState) -> bool {
    let classes = ["22", "23", "54"];
    *code != SqlState::UNIQUE_VIOLATION && classes.iter().any(|it| code.code().starts_with(it))
}

/// A table that is no outbox any more: none of its rows can be read.
pub fn of_layout(_: &LayoutError) -> Class {
    Class::Fatal
}

/// What a broker's, or the Kafka client's, error means for a record that it came for alone.
pub fn of_kafka(code: Code) -> (Class, Reason) {
    match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            (Class::Rejected, Reason::TOO_LARGE)
        }
        Code::InvalidTimestamp => (Class::Rejected, Reason::TIMESTAMP),
        Code::InvalidTopic => (Class::Rejected, Reason::ILLEGAL_TOPIC),
        Code::InvalidRecord | Code::UnsupportedForMessageFormat | Code::PolicyViolation => {
            (Class::Rejected, Reason::REFUSED)
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition => {
            (Class::Retryable, Reason::TOPIC_MISSING)
        }
        Code::UnknownPartition => (Class::Retryable, Reason::PARTITION_MISSING),
        Code::TopicAuthorizationFailed => (Class::Retryable, Reason::TOPIC_DENIED),
        code if is_transient(code) => (Class::Transient, Reason::REFUSED),
        _ => (Class::Retryable, Reason::REFUSED),
    }
}

/// Errors of the way, of the cluster as a whole, or of the producer: the next one starts anew.
fn is_transient(code: Code) -> bool {
    matches!(
        code,
        // The way, and what the client gave up because of it.
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::MessageTimedOut
            | Code::RequestTimedOut
            | Code::NetworkException
            | Code::TimedOutQueue
            | Code::QueueFull
            | Code::PurgeQueue
            | Code::PurgeInflight
            | Code::BrokerDestroy
            | Code::WaitingForCoordinator
            // The producer as a whole.
            | Code::Fatal
            | Code::GaplessGuarantee
            | Code::Inconsistent
            | Code::State
            | Code::Fenced
            | Code::OutOfOrderSequenceNumber
            | Code::DuplicateSequenceNumber
            | Code::UnknownProducerId
            | Code::InvalidProducerEpoch
            | Code::ProducerFenced
            // Who may do nothing is no producer: it says nothing about the topic.
            | Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::ClusterAuthorizationFailed
            // The cluster.
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::KafkaStorageError
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::NotController
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::ThrottlingQuotaExceeded
            // A batch damaged on its way, and topics that were made anew under their old names.
            | Code::InvalidMessage
            | Code::UnknownTopicId
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Column;

    #[test]
    fn a_number_that_is_taken_says_nothing_about_the_event() {
        for code in [SqlState::UNTRANSLATABLE_CHARACTER, SqlState::CHECK_VIOLATION] {
            assert!(refuses_content(&code), "{code:?}");
        }
        for code in [SqlState::UNIQUE_VIOLATION, SqlState::ADMIN_SHUTDOWN, SqlState::DISK_FULL] {
            assert!(!refuses_content(&code), "{code:?}");
        }
    }

    #[test]
    fn in_doubt_an_event_is_tried_again() {
        for code in [Code::Unknown, Code::InvalidCommitOffsetSize, Code::NotImplemented] {
            assert_eq!(of_kafka(code), (Class::Retryable, Reason::REFUSED), "{code:?}");
        }
    }

    #[test]
    fn what_the_cluster_suffers_says_nothing_about_the_event() {
        for code in [Code::NotLeaderForPartition, Code::PurgeQueue, Code::MessageTimedOut] {
            assert_eq!(of_kafka(code).0, Class::Transient, "{code:?}");
        }
    }

    #[test]
    fn a_row_in_the_log_is_what_it_is() {
        let faults = [RowFault::Null(Column::Topic), RowFault::IllegalTopic, RowFault::HeaderName];
        for fault in faults {
            assert_eq!(of_fault(&fault).0, Class::Rejected);
        }
    }
}
