//! Sends claimed rows through a sink, and returns what became of each.
//!
//! Rows of one topic are sent in the given order; a topic that has to wait does not delay the
//! others. After a row that fails, nothing of its key is sent: rows that only waited for it count
//! as not tried, whatever the sink reports about them. Before rows that may be in flight are called
//! not tried, the sink is restarted: they must not arrive after another instance has sent them and
//! the rows after them.

mod batch;
mod record;
#[cfg(test)]
mod tests;

use tokio::time::Instant;

pub(crate) use self::batch::send_rows;
use postrider_core::delivery::{Broken, Refusal};

/// How rows are sent.
#[derive(Debug, Clone)]
pub(crate) struct SendOptions {
    /// They carry the header that marks a replay.
    pub(crate) replayed: bool,
    /// Which timestamp they carry.
    pub(crate) timestamp: Timestamp,
    /// After a row that fails, nothing of its key is sent.
    pub(crate) keep_order: bool,
    /// A missing topic is given time to appear, instead of refusing its rows at once, and a schema
    /// registry that can't be reached is waited for, instead of postponing its rows.
    pub(crate) waits_for_topics: bool,
    /// By how much the database server's clock is ahead of this machine's.
    pub(crate) server_ahead_micros: i64,
    /// When to give up waiting for answers.
    pub(crate) deadline: Instant,
}

/// Which timestamp a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timestamp {
    /// The time it is sent.
    Now,
    /// The time of the commit, if the topic accepts it.
    Original,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowResult {
    /// It is durable at its destination.
    Delivered,
    /// It was refused for a reason that can change.
    Retry(Refusal),
    /// It was refused for its content.
    Reject(Refusal),
    /// Nothing is known about it: it was not sent, or the connection failed.
    NotTried,
    /// It was not sent, because something that it needs can't be reached. Others could be.
    Postponed,
}

impl RowResult {
    /// Whether it was neither delivered nor refused.
    pub(crate) fn is_untried(&self) -> bool {
        matches!(self, RowResult::NotTried | RowResult::Postponed)
    }
}

/// What became of all rows.
#[derive(Debug)]
pub(crate) struct SendResults {
    /// One for each row, in their order.
    pub(crate) results: Vec<RowResult>,
    /// What prevented sending, if anything did.
    pub(crate) interrupted_by: Option<Broken>,
    /// Whether the sink is ready for the next batch; if not, restart it first.
    pub(crate) is_sink_ready: bool,
}
