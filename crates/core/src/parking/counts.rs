//! What is in the side table, counted; and what the poller does with it.

use std::time::Instant;

use crate::delivery::Class;
use crate::lsn::Lsn;

/// What is in the side table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Unfinished events.
    pub live: Vec<LiveCount>,
    /// Their total.
    pub total: LiveTotal,
    /// What `postrider replay` has done so far, whatever the slot.
    pub replayed: Vec<ReplayedCount>,
    /// Unfinished events of slots that no longer exist.
    pub orphans: Vec<Orphans>,
}

/// What has become of a parked event: the column `status` of `postrider.undelivered` has its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It will be retried, or waits for an earlier event of its key.
    Pending,
    /// An instance has claimed it.
    Processing,
    Delivered,
    /// It is not retried automatically any more.
    Dead,
    Discarded,
}

impl Status {
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Processing, Self::Delivered, Self::Dead, Self::Discarded];

    /// As it is stored.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }

    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.label() == label)
    }
}

/// Rows of one table, topic and status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCount {
    /// The outbox table's name.
    pub source_table: String,
    /// The topic, or `(illegal)`, if the column has anything else.
    pub topic: String,
    /// Pending, processing or dead.
    pub status: Status,
    pub events: u64,
}

/// What is unfinished in the side table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveTotal {
    pub bytes: u64,
    /// Messages that are not events, counted up to a limit.
    pub malformed: u64,
    /// The newest commit that any of it belongs to.
    pub newest_commit: Lsn,
}

/// Events that were replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedCount {
    pub topic: String,
    /// `success` or `failure`.
    pub result: String,
    pub events: u64,
}

/// Unfinished events of a slot that no longer exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    pub slot: String,
    pub events: u64,
}

/// Receives what the poller does, for the metrics.
pub trait Observer {
    /// An event was delivered this long after its commit.
    fn delivered(&mut self, table: &str, topic: &str, latency_seconds: f64);
    /// An event was refused.
    fn failed(&mut self, table: &str, topic: &str, class: Class);
    /// An event will not be retried.
    fn died(&mut self, table: &str, topic: &str);
    /// What was in the side table when the count began.
    fn counted(&mut self, counts: &Counts, began: Instant);
    /// How many times events of another slot were taken over.
    fn taken_over(&mut self, takeovers: i64);
    /// The side table could not be queried.
    fn fetch_error(&mut self);
}
