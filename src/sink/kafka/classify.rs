//! The one place that decides what an error of Kafka means for an event, and so who has to act.
//!
//! An unknown error is always retried; it never makes an event dead. The table in
//! docs/undelivered.md has the same for operators.

use postrider_core::delivery::{Class, Reason};
use rdkafka::types::RDKafkaErrorCode as Code;

/// What an error of a broker, or of the Kafka client, means for a record that was sent alone.
pub(super) fn classify(code: Code) -> (Class, Reason) {
    match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            (Class::Rejected, Reason::TooLarge)
        }
        Code::InvalidTimestamp => (Class::Rejected, Reason::Timestamp),
        Code::InvalidTopic => (Class::Rejected, Reason::IllegalTopic),
        Code::InvalidRecord | Code::UnsupportedForMessageFormat | Code::PolicyViolation => {
            (Class::Rejected, Reason::Refused)
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition => {
            (Class::Retryable, Reason::TopicMissing)
        }
        Code::UnknownPartition => (Class::Retryable, Reason::PartitionMissing),
        Code::TopicAuthorizationFailed => (Class::Retryable, Reason::TopicDenied),
        code if is_transient(code) => (Class::Transient, Reason::Refused),
        _ => (Class::Retryable, Reason::Refused),
    }
}

/// Errors of the connection, of the cluster as a whole, or of the producer: another one starts
/// over.
fn is_transient(code: Code) -> bool {
    matches!(
        code,
        // The connection, and what the client gave up because of it.
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
            // The client has no permissions at all: this is not about the topic.
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
            // A batch damaged in transit, and topics that were recreated under their old names.
            | Code::InvalidMessage
            | Code::UnknownTopicId
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_doubt_an_event_is_tried_again() {
        for code in [Code::Unknown, Code::InvalidCommitOffsetSize, Code::NotImplemented] {
            assert_eq!(classify(code), (Class::Retryable, Reason::Refused), "{code:?}");
        }
    }

    #[test]
    fn what_the_cluster_suffers_says_nothing_about_the_event() {
        for code in [Code::NotLeaderForPartition, Code::PurgeQueue, Code::MessageTimedOut] {
            assert_eq!(classify(code).0, Class::Transient, "{code:?}");
        }
    }
}
