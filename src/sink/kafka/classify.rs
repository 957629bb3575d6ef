//! The one place that says what a broker's error means for a record.

use rdkafka::types::RDKafkaErrorCode as Code;

/// What an error says about the record it came for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing: the way broke. Begin anew, as often as it takes.
    Broken,
    /// It can't be written now, for a reason that can pass.
    Retryable,
    /// It will never be written as it is.
    Rejected,
}

/// In doubt the way broke: an error nobody thought of never condemns an event.
pub(super) fn meaning(code: Code) -> Meaning {
    match code {
        Code::MessageSizeTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::InvalidTopic
        | Code::MessageBatchTooLarge
        | Code::UnsupportedForMessageFormat
        | Code::PolicyViolation => Meaning::Rejected,
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::TopicAuthorizationFailed => Meaning::Retryable,
        _ => Meaning::Broken,
    }
}
