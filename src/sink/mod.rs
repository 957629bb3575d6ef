//! Where records go: the trait, and Kafka.

pub mod kafka;

use std::time::Instant;

use crate::ack::Ticket;
use crate::envelope::{Destination, Record};

/// Takes records in the order of the log and reports, in any order, what became of them.
///
/// Taken is not durable: an event is done only when its ticket comes back as [`Report::Done`].
/// A sink never reorders the records of one key, also not around a refused one: when a record is
/// refused, nothing behind it of the same topic is written before the stream begins anew.
#[allow(async_fn_in_trait)] // called by one task that owns the sink; no Send bound is wanted
pub trait Sink {
    /// Forgets what is in flight and begins anew. Afterwards no report of an earlier ticket comes.
    async fn restart(&mut self) -> Result<(), Broken>;

    /// What is known of a topic. None: it is being asked for; try again after the next news.
    fn destination(&mut self, topic: &str) -> Option<&Destination>;

    /// Takes a record, or says why not. Never blocks.
    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken>;

    /// Waits for news and appends the reports among them, if any. Cancel safe.
    async fn news(&mut self, reports: &mut Vec<Report>);

    /// What is known to stand in the way of the destination, if anything.
    fn obstacle(&self) -> Option<Obstacle>;

    /// When the destination last answered a question that was not about a record.
    fn answered_at(&self) -> Option<Instant>;
}

/// What became of a record.
#[derive(Debug)]
pub enum Report {
    /// It is durable.
    Done(Ticket),
    /// The destination does not want it. Its ticket stays in flight: it holds the position.
    Refused(Ticket, Box<Refusal>),
    /// It is unknown, and the session must begin anew.
    Broken(Broken),
}

/// Why a record was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// There is no room now: try again after the next news.
    Busy,
    /// The destination does not want it.
    Refused(Box<Refusal>),
    /// The session must begin anew.
    Broken(Broken),
}

/// A record that its destination does not want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The topic.
    pub topic: String,
    /// The row's id, if the record carries it.
    pub id: Option<String>,
    /// Why, in the destination's words. Never contains the payload.
    pub reason: String,
    /// What the refusal proves.
    pub verdict: Verdict,
}

/// What a refusal proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The record was refused in company: nothing is proved about it. The sink will send this
    /// topic's records one at a time from now on; begin anew.
    Suspect,
    /// The record was refused alone, for a reason that can pass (its topic is missing, say).
    Retryable,
    /// The record was refused alone, for what it is.
    Rejected,
}

/// What stands in the way of the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What it is and what to do about it, for people. Never contains a secret.
    pub text: String,
    /// Whether nothing can be published before it is out of the way.
    pub certain: bool,
}

/// The way to the destination broke; it says nothing about any record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);
