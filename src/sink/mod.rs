//! Where records go: the trait that a destination implements, and Kafka.

pub mod kafka;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use postrider_core::delivery::{
    Broken, NotTaken, Obstacle, Outcome, ReadyTopics, Reason, Refusal, Report, Ticket,
};
pub use postrider_core::envelope::{Destination, Record};
pub use postrider_core::lsn::Lsn;

/// Takes records in the order of the log and reports, in any order, what became of them.
///
/// An accepted record is not durable yet: its event is done only when its ticket is reported with
/// [`Outcome::Ok`]. A sink never reorders the records of one key, not even around a refused one: a
/// record that is reported as refused was refused on its own, and no later record of its key was
/// written before that. A sink that cannot know which record an error is about reports
/// [`Report::Broken`], and the stream restarts.
#[allow(async_fn_in_trait)] // called by one task that owns the sink; no Send bound is wanted
pub trait Sink {
    /// Which destination it is, for the log: `Kafka at kafka-1:9092`.
    fn describe(&self) -> String {
        "a sink of the program".to_owned()
    }

    /// Forgets what is in flight and starts again. No report of an earlier ticket comes after that.
    async fn restart(&mut self) -> Result<(), Broken>;

    /// Abandons what is in flight, and accepts nothing until the next restart. When it returns,
    /// this process sends no more records; what was on its way to the destination before can still
    /// arrive. Takes a bounded time, whatever the destination does.
    async fn stop(&mut self);

    /// Restarts, and waits at most this long until it is known whether records may go to the
    /// destination.
    async fn check_destination(&mut self, _limit: Duration) -> Result<(), Broken> {
        self.restart().await
    }

    /// What is known of a topic. None: it is being looked up, and
    /// [`ready_topics`](Self::ready_topics) will report it. Records of other topics may be sent
    /// meanwhile.
    fn destination(&mut self, topic: &str) -> Option<&Destination>;

    /// The topics that had to wait and may be ready now. Each is named once.
    fn ready_topics(&mut self) -> ReadyTopics {
        ReadyTopics::default()
    }

    /// Roughly how many partitions the last few thousand records went to.
    fn partitions_in_use(&self) -> usize {
        1
    }

    /// Other events have to wait for topics that are being looked up: a topic that did not exist
    /// when it was looked up gets no more time to appear.
    fn hurry(&mut self) {}

    /// Accepts a record, or returns why not. Never blocks.
    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken>;

    /// A transaction ends here: after the last record that was handed over, and after events that
    /// wait for their topic or to be retried. Its position may be confirmed once all of them are
    /// done; only a sink that commits its records in transactions needs to know.
    fn boundary(&mut self, _commit_end: Lsn) {}

    /// Waits until something happens and appends the reports, if there are any. While the sink is
    /// stopped, the only thing that can happen is that the destination becomes reachable or
    /// unreachable. Cancel safe.
    async fn receive(&mut self, reports: &mut Vec<Report>);

    /// What keeps records from reaching the destination, if something is known to.
    fn obstacle(&self) -> Option<Obstacle> {
        None
    }

    /// When the destination last answered a question that was not about a record. None: it is never
    /// asked.
    fn answered_at(&self) -> Option<Instant> {
        None
    }
}

/// Makes sinks: one for the stream, and others, on threads of their own, for events that are
/// retried or replayed. A closure can be one.
pub trait SinkFactory: Clone + Send + 'static {
    /// The sinks that it makes.
    type Sink: Sink;

    /// Makes a sink. Does not wait for the destination.
    fn make(&self, options: SinkOptions) -> Result<Self::Sink, Broken>;
}

impl<S: Sink, F> SinkFactory for F
where
    F: Fn(SinkOptions) -> Result<S, Broken> + Clone + Send + 'static,
{
    type Sink = S;

    fn make(&self, options: SinkOptions) -> Result<S, Broken> {
        self(options)
    }
}

/// What a sink needs to know about its user.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// How many records may be in flight.
    pub in_flight_events_max: usize,
    /// How many bytes may be in flight.
    pub in_flight_bytes_max: usize,
    /// How long a record may stay unacknowledged before it is given up; none: forever.
    pub give_up_after: Option<Duration>,
    /// Decides whether records may go to the destination that was found; none: they always may.
    pub approval: Option<Approval>,
}

/// Decides whether records may go to the destination that was found, before the first one is sent.
/// `None`: the destination does not identify itself.
#[derive(Clone)]
pub struct Approval(Arc<dyn Fn(Option<String>) -> Approving + Send + Sync>);

/// The pending answer. An error with a fix is final; after one without a fix, the question is asked
/// again.
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
