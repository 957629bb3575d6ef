//! Where records go: the trait, and Kafka.

pub mod kafka;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use postrider_core::delivery::{Broken, NotTaken, Obstacle, ReadyTopics, Report, Ticket};
use postrider_core::envelope::{Destination, Record};

/// Takes records in the order of the log and reports, in any order, what became of them.
///
/// Taken is not durable: an event is done only when its ticket comes back as [`Outcome::Ok`](postrider_core::delivery::Outcome::Ok).
/// A sink never reorders the records of one key, also not around a refused one: when a record comes
/// back refused, it was refused alone, and nothing of its key was written behind it before. A sink
/// that can't tell which record was meant reports [`Report::Broken`], and the stream begins anew.
#[allow(async_fn_in_trait)] // called by one task that owns the sink; no Send bound is wanted
pub trait Sink {
    /// Forgets what is in flight and begins anew. Afterwards no report of an earlier ticket comes.
    async fn restart(&mut self) -> Result<(), Broken>;

    /// Gives up what is in flight, and takes nothing before the next restart. When it returns, no record
    /// leaves this process any more; what was on its way to the destination before can still arrive.
    /// Takes a bounded time, whatever the destination does.
    async fn stop(&mut self);

    /// What is known of a topic. None: it is being asked for; records of other topics may go
    /// meanwhile. Try again when [`topic_news`](Self::topic_news) names it.
    fn destination(&mut self, topic: &str) -> Option<&Destination>;

    /// The topics that had to wait and may be ready, each told once.
    fn topic_news(&mut self) -> ReadyTopics;

    /// How many partitions the last few thousand records went to, about.
    fn partitions_in_use(&self) -> usize;

    /// Others have to wait for topics that are being asked for: one that was not there when it was asked
    /// for is not given any more time to appear.
    fn hurry(&mut self);

    /// Takes a record, or says why not. Never blocks.
    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken>;

    /// Waits for news and appends the reports among them, if any. While the sink is stopped, the only news
    /// is whether the destination can be reached. Cancel safe.
    async fn news(&mut self, reports: &mut Vec<Report>);

    /// What is known to stand in the way of the destination, if anything.
    fn obstacle(&self) -> Option<Obstacle>;

    /// When the destination last answered a question that was not about a record.
    fn answered_at(&self) -> Option<Instant>;
}

/// Says whether records may go to the destination that was found, before the first one is sent.
/// `None`: the destination does not say which one it is.
#[derive(Clone)]
pub struct Approval(Arc<dyn Fn(Option<String>) -> Approving + Send + Sync>);

/// The answer, when it is there. An error with a fix is final; without one it is asked for again.
pub type Approving = Pin<Box<dyn Future<Output = Result<(), Broken>> + Send>>;

impl Approval {
    /// Asks this function.
    pub fn new(ask: impl Fn(Option<String>) -> Approving + Send + Sync + 'static) -> Self {
        Approval(Arc::new(ask))
    }

    /// Asks about a destination.
    pub fn ask(&self, destination: Option<String>) -> Approving {
        (self.0)(destination)
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approval")
    }
}
