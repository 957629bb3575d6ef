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

/// Why an event was parked, in a word: the column `reason` of `postrider.undelivered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub &'static str);

impl Reason {
    /// Larger than its topic allows.
    pub const TOO_LARGE: Self = Reason("too-large");
    /// Its topic is not a legal name.
    pub const ILLEGAL_TOPIC: Self = Reason("illegal-topic");
    /// A required column is NULL.
    pub const COLUMN_NULL: Self = Reason("column-null");
    /// A column's value can't be read as its type.
    pub const COLUMN_UNREADABLE: Self = Reason("column-unreadable");
    /// Its headers are not a JSON object, or have names that can't be sent.
    pub const BAD_HEADERS: Self = Reason("bad-headers");
    /// Its explicit partition is not a partition number.
    pub const BAD_PARTITION: Self = Reason("bad-partition");
    /// A logical message that is not an event.
    pub const MALFORMED: Self = Reason("malformed");
    /// Its topic does not exist.
    pub const TOPIC_MISSING: Self = Reason("topic-missing");
    /// Its topic has fewer partitions than it asks for.
    pub const PARTITION_MISSING: Self = Reason("partition-missing");
    /// postrider is not allowed to write to its topic.
    pub const TOPIC_DENIED: Self = Reason("topic-denied");
    /// Its topic does not accept its timestamp.
    pub const TIMESTAMP: Self = Reason("timestamp-refused");
    /// The destination refused it for another reason.
    pub const REFUSED: Self = Reason("refused");
    /// Its value was too large to be copied into the side table, and can't be read from the outbox.
    pub const VALUE_MISSING: Self = Reason("value-missing");
    /// Postgres can't store it: for example, the database's encoding lacks one of its characters.
    pub const UNSTORABLE: Self = Reason("unstorable");
    /// It waits for an earlier event of its key.
    pub const BLOCKED: Self = Reason("behind");

    /// All of them, for documentation and for filters.
    pub const ALL: [Self; 15] = [
        Self::TOO_LARGE,
        Self::ILLEGAL_TOPIC,
        Self::COLUMN_NULL,
        Self::COLUMN_UNREADABLE,
        Self::BAD_HEADERS,
        Self::BAD_PARTITION,
        Self::MALFORMED,
        Self::TOPIC_MISSING,
        Self::PARTITION_MISSING,
        Self::TOPIC_DENIED,
        Self::TIMESTAMP,
        Self::REFUSED,
        Self::VALUE_MISSING,
        Self::UNSTORABLE,
        Self::BLOCKED,
    ];
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
