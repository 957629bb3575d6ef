//! `postrider replay`: publishes dead events again, in the order of the log.
//!
//! A batch is one transaction: it takes dead rows with `FOR UPDATE SKIP LOCKED`, publishes them,
//! and marks what became of them. So a killed replay leaves rows that are `dead` and not locked,
//! and rows that were marked are not published again. Rows that the broker had acknowledged before
//! they could be marked are published again: at least once, here too.
//!
//! Two connections take turns, because marking costs Postgres more than publishing costs the
//! brokers: while one marks, the other publishes. A kill in between leaves at most these two
//! batches unmarked.
//!
//! A row is published only if no earlier event of its key is still in the table, unless that one
//! precedes it in the same batch; and only once the slot has confirmed its transaction: an earlier
//! event of its key could otherwise still be unpublished.

mod batch;
mod pace;
mod queue;
mod summary;

use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::Client;

pub(crate) use self::summary::Summary;
pub(crate) use super::sender::Timestamp;

use self::batch::{BatchPublisher, mark};
use self::queue::ReplayQueue;
use super::dead::{CommandError, CommandSession};
use super::filter::Filter;
use super::store::{self, DeadCount};
use crate::config::Config;
use crate::rights::Access;
use crate::shutdown::{Phase, Shutdown};
use crate::sink::{Sink, SinkFactory};

/// What one transaction holds at most. The first event always fits.
const BATCH_EVENTS: usize = 2000;
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Places looked up at a time: one lookup may have to sort all dead events.
const LOOK_AHEAD: usize = 20_000;
/// When the producer gives a record up, and when we give up waiting for it: both well before
/// Postgres ends a transaction that is idle for 60 s.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// How many consecutive batches can fail because of the connection to the brokers.
const BROKER_FAILURES_MAX: usize = 2;

const NAME: &str = "postrider replay";

/// What to replay, and how.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Which events.
    pub filter: Filter,
    /// At most this many events per second.
    pub rate: Option<u32>,
    /// Which timestamp they carry.
    pub timestamp: Timestamp,
    /// They may overtake earlier events of their ordering keys.
    pub allow_reorder: bool,
}

/// Counts the events that a replay would publish. Publishes nothing.
pub(crate) async fn dry_run(
    config: &Config,
    filter: &Filter,
) -> Result<Vec<DeadCount>, CommandError> {
    let session = CommandSession::open(config, NAME).await?;
    let counts = store::dead_counts(&session.client, &config.postgres.slot, filter, i64::MAX);
    counts.await.map_err(|error| CommandError::statement("count events", &error))
}

/// Publishes dead events until all were tried once, or until shutdown. `on_progress` receives the
/// progress, after each batch.
pub(crate) async fn replay<F: SinkFactory>(
    config: &Config,
    factory: &F,
    request: &Request,
    shutdown: &mut Shutdown,
    on_progress: &mut dyn FnMut(&Summary),
) -> Result<Summary, CommandError> {
    let mut first = CommandSession::open(config, NAME).await?;
    first.check_access(Access::Replay).await?;
    let mut second = first.another(NAME).await?;
    let reader = first.another(NAME).await?;
    let queue =
        Mutex::new(ReplayQueue::open(config, factory, request, &reader.client, on_progress).await?);
    let workers =
        Workers { config, request, reader: &reader.client, queue, marking: Mutex::new(()) };
    // While one has Postgres mark a batch, the other publishes the next.
    let (one, two) = (&mut first.client, &mut second.client);
    let one = Box::pin(workers.run(one, shutdown.clone()));
    let two = Box::pin(workers.run(two, shutdown.clone()));
    tokio::try_join!(one, two)?;
    let mut summary = workers.queue.into_inner().summary;
    summary.stopped = shutdown.phase() >= Phase::Draining;
    Ok(summary)
}

/// Two connections that take turns.
struct Workers<'a, S> {
    config: &'a Config,
    request: &'a Request,
    reader: &'a Client,
    /// Whose turn it is to publish.
    queue: Mutex<ReplayQueue<'a, S>>,
    /// Whose turn it is to mark. Taken before the queue is left, so batches are marked in order.
    marking: Mutex<()>,
}

impl<S: Sink> Workers<'_, S> {
    async fn run(&self, client: &mut Client, mut shutdown: Shutdown) -> Result<(), CommandError> {
        let failed = |error| CommandError::statement("take dead events", &error);
        let slot = &self.config.postgres.slot;
        loop {
            let mut queue = self.queue.lock().await;
            let positions = queue.next(&mut shutdown).await?;
            if positions.is_empty() {
                return Ok(());
            }
            let confirmed = store::confirmed_lsn(client, slot).await.map_err(failed)?;
            let tx = client.transaction().await.map_err(failed)?;
            let ReplayQueue { sink, published_unmarked, .. } = &mut *queue;
            let batch = BatchPublisher {
                slot,
                tables: &self.config.postgres.tables,
                request: self.request,
                values: self.reader,
                published_unmarked,
            };
            let published = batch.publish(&tx, confirmed, &positions, sink, &mut shutdown).await?;
            // Nothing was sent, and trying again can't help.
            if let Some(broken) = published.interrupted_by.as_ref().filter(|it| it.fix.is_some()) {
                return Err(CommandError::Sink(broken.clone()));
            }
            let _marking = self.marking.lock().await;
            queue.add_results(&positions, &published, shutdown.phase());
            drop(queue);
            mark(tx, slot, &published).await?;
        }
    }
}
