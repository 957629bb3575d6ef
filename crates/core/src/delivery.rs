//! What the relay and a destination exchange about records. No I/O.
//!
//! A record is handed over under a [`Ticket`]; the ticket comes back with an [`Outcome`]. What
//! can't be published has a [`Refusal`]: the [`Reason`] in a word, and the detail in a sentence.

/// A receipt for one event in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// The number that travels with the record through the destination's client.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The ticket with this number. [`AckTracker::done`](crate::ack::AckTracker::done) refuses a
    /// number that is not in flight.
    pub fn from_number(number: u64) -> Self {
        Ticket(number)
    }
}

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nobody: the link broke and recovers on its own. It says nothing about the event.
    Transient,
    /// An operator, somewhere else: the event can't be published now, for a reason that can pass.
    Retryable,
    /// The event's writer: it will never be published as it is.
    Rejected,
}

impl Class {
    /// The label of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Class::Transient => "transient",
            Class::Retryable => "retryable",
            Class::Rejected => "rejected",
        }
    }
}

/// What became of an event at its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable there.
    Ok,
    /// It was refused, on its own, for a reason that can pass.
    Retry(Refusal),
    /// It was refused, on its own, for what it is.
    Reject(Refusal),
    /// It was not tried: an earlier event of its key was refused.
    Blocked,
}

/// Why an event can't be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In a word.
    pub reason: Reason,
    /// In a sentence, or in the destination's words. Never holds the payload.
    pub detail: String,
}

/// Why an event was parked: the column `reason` of `postrider.undelivered` has its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Larger than its topic allows.
    TooLarge,
    /// Its topic is not a legal name.
    IllegalTopic,
    /// A required column is NULL.
    ColumnNull,
    /// A column's value can't be read as its type.
    ColumnUnreadable,
    /// Its headers are not a JSON object, or have names that can't be sent.
    BadHeaders,
    /// Its explicit partition is not a partition number.
    BadPartition,
    /// A value that the configured format can't express.
    NotEncodable,
    /// A logical message that is not an event.
    Malformed,
    /// Its topic does not exist.
    TopicMissing,
    /// Its topic has fewer partitions than it asks for.
    PartitionMissing,
    /// postrider is not allowed to write to its topic.
    TopicDenied,
    /// The schema registry does not know its subject.
    SchemaMissing,
    /// Its topic does not accept its timestamp.
    Timestamp,
    /// The destination refused it for another reason.
    Refused,
    /// Its value was too large to be copied into the side table, and can't be read from the outbox.
    ValueMissing,
    /// Postgres can't store it: for example, the database's encoding lacks one of its characters.
    Unstorable,
    /// It waits for an earlier event of its key.
    Blocked,
}

impl Reason {
    /// All of them, for documentation and for filters.
    pub const ALL: [Self; 17] = [
        Self::TooLarge,
        Self::IllegalTopic,
        Self::ColumnNull,
        Self::ColumnUnreadable,
        Self::BadHeaders,
        Self::BadPartition,
        Self::NotEncodable,
        Self::Malformed,
        Self::TopicMissing,
        Self::PartitionMissing,
        Self::TopicDenied,
        Self::SchemaMissing,
        Self::Timestamp,
        Self::Refused,
        Self::ValueMissing,
        Self::Unstorable,
        Self::Blocked,
    ];

    /// As it is stored.
    pub fn label(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::IllegalTopic => "illegal-topic",
            Self::ColumnNull => "column-null",
            Self::ColumnUnreadable => "column-unreadable",
            Self::BadHeaders => "bad-headers",
            Self::BadPartition => "bad-partition",
            Self::NotEncodable => "not-encodable",
            Self::SchemaMissing => "schema-missing",
            Self::Malformed => "malformed",
            Self::TopicMissing => "topic-missing",
            Self::PartitionMissing => "partition-missing",
            Self::TopicDenied => "topic-denied",
            Self::Timestamp => "timestamp-refused",
            Self::Refused => "refused",
            Self::ValueMissing => "value-missing",
            Self::Unstorable => "unstorable",
            Self::Blocked => "behind",
        }
    }
}

/// What became of a record.
#[derive(Debug)]
pub enum Report {
    /// The destination has answered about this record alone.
    Settled(Ticket, Outcome),
    /// It is unknown, and the session must restart.
    Broken(Broken),
}

/// Why a record was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// The sink can't take it now: retry after the sink's next event.
    Busy,
    /// Its topic is not ready: retry when the sink names the topic. Records of other topics may be
    /// sent.
    TopicBusy,
    /// Something that it needs, a schema registry, can't be reached: this says nothing about the
    /// record. The sink names the topic when it is worth another try; records of other topics may be
    /// sent.
    Unreachable,
    /// The destination does not accept it, for a reason that can pass.
    Retry(Refusal),
    /// The destination does not accept it for what it is.
    Reject(Refusal),
    /// The session must restart.
    Broken(Broken),
}

/// What keeps records from reaching the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What it is and what to do about it. Never contains a secret.
    pub text: String,
    /// Whether nothing can be published before it is removed.
    pub certain: bool,
}

/// The link to the destination broke; it says nothing about any record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Broken {
    /// What happened.
    pub text: String,
    /// Records were refused in a batch: which of them were at fault is unknown.
    pub refused: bool,
    /// What an operator has to do, if waiting and retrying can't help.
    pub fix: Option<String>,
}

impl Broken {
    /// A broken link, with its cause.
    pub fn new(text: impl Into<String>) -> Self {
        Broken { text: text.into(), refused: false, fix: None }
    }
}

/// Topics that may be ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadyTopics {
    topics: Vec<String>,
    all: bool,
}

impl ReadyTopics {
    /// Above this number all topics count as ready.
    const TOPICS_MAX: usize = 10_000;

    /// All of them.
    pub fn all() -> Self {
        ReadyTopics { topics: Vec::new(), all: true }
    }

    /// Adds one.
    pub fn push(&mut self, topic: &str) {
        if self.topics.len() >= Self::TOPICS_MAX {
            *self = ReadyTopics::all();
        }
        if !self.all {
            self.topics.push(topic.to_owned());
        }
    }

    /// Which ones; none: all.
    pub fn topics(self) -> Option<Vec<String>> {
        (!self.all).then_some(self.topics)
    }
}
