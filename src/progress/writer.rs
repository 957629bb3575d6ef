//! Writes into the table: one task with a connection of its own, so that the relay's loop never
//! waits for SQL. One position at a time; while it is being stored the next one grows. It also
//! checks whether the promises are kept, since all that it stores depends on that.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_postgres::Client;

use super::StoredLsn;
use super::store::{ProgressStatement, Stored};
use super::{Unsent, coverage, lapses};
use crate::config::TableName;
use crate::postgres::{self, ConnectionGuard, OpenError, Server};
use postrider_core::ack::Done;
use postrider_core::lsn::Lsn;

/// How often the tables and the publication are checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How often it is recorded that they are intact, which writes to the log.
const NOTE_EVERY: Duration = Duration::from_secs(9);

/// What a relay reads, by its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) slot: String,
    pub(crate) publication: String,
    pub(crate) names: Vec<TableName>,
    /// Their OIDs.
    pub(crate) tables: Vec<u32>,
    /// Also events without a table.
    pub(crate) reads_messages: bool,
}

/// What is done, to be stored.
#[derive(Debug)]
struct WriteRequest {
    done: Done,
    /// Tables whose rows were skipped since the last request.
    skipped: Vec<u32>,
}

/// What the task reports.
#[derive(Debug)]
pub(crate) enum ProgressEvent {
    /// It is stored. If that moved the position, it may be confirmed: at once, or, with another
    /// position, once the stream has been read up to that.
    Stored(Done, Option<(StoredLsn, Option<Lsn>)>),
    /// Rows of these tables were skipped, which are promised for the slot. Nothing more is stored.
    Unread(Vec<String>),
    /// Rows are promised that are not sent. Nothing more is stored.
    Unsent(Unsent),
    /// The slot may lack rows, and why.
    Lapsed(Vec<String>),
    /// The task can't continue.
    Failed(String),
}

/// The relay's handle for the task.
pub(crate) struct ProgressWriter {
    requests: mpsc::Sender<WriteRequest>,
    events: mpsc::Receiver<ProgressEvent>,
    task: JoinHandle<()>,
    /// Since when a position has been on its way.
    storing_since: Option<Instant>,
}

impl ProgressWriter {
    /// Starts the task on the given runtime.
    pub(crate) async fn open(
        runtime: &Handle,
        server: &Server,
        reading: Reading,
        generation: &str,
        depends_on: &str,
    ) -> Result<Self, OpenError> {
        let (requests, request_receiver) = mpsc::channel(1);
        let (event_sender, events) = mpsc::channel(1);
        let server = server.clone();
        let (generation, depends_on) = (generation.to_owned(), depends_on.to_owned());
        // On the other runtime from the beginning: a connection stays where it was opened.
        let opening = runtime.spawn(async move {
            let connecting = postgres::connect_server(&server).await;
            let (client, guard) = connecting.map_err(OpenError::Connect)?;
            let statement =
                ProgressStatement::prepare(&client, reading.clone(), generation, depends_on);
            let statement = statement.await.map_err(OpenError::Query)?;
            let task = WriterTask {
                client,
                statement,
                reading,
                noted_at: None,
                position: Lsn::ZERO,
                has_lapsed: false,
            };
            Ok::<_, OpenError>(tokio::spawn(task.run(guard, request_receiver, event_sender)))
        });
        let task = opening.await.map_err(|error| OpenError::Ended(error.to_string()))??;
        Ok(ProgressWriter { requests, events, task, storing_since: None })
    }

    /// Whether a position is on its way.
    pub(crate) fn is_storing(&self) -> bool {
        self.storing_since.is_some()
    }

    /// For how long one has been.
    pub(crate) fn storing_for(&self, now: Instant) -> Duration {
        self.storing_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Stores what is done; nothing may be on its way. `skipped`: the tables of which rows were
    /// skipped since the last time.
    pub(crate) fn store(&mut self, done: Done, skipped: Vec<u32>) {
        if self.requests.try_send(WriteRequest { done, skipped }).is_ok() {
            self.storing_since.get_or_insert_with(Instant::now);
        }
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> ProgressEvent {
        let ended = || ProgressEvent::Failed("the task that stores progress has ended".to_owned());
        let event = self.events.recv().await.unwrap_or_else(ended);
        // A lapse is found while a position may still be on its way.
        if !matches!(event, ProgressEvent::Lapsed(_)) {
            self.storing_since = None;
        }
        event
    }
}

impl Drop for ProgressWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task's state.
struct WriterTask {
    client: Client,
    statement: ProgressStatement,
    reading: Reading,
    noted_at: Option<Instant>,
    /// What was stored last.
    position: Lsn,
    /// A lapse was reported: nothing more is checked.
    has_lapsed: bool,
}

impl WriterTask {
    /// Stores what is ordered, and checks the promises, until the session ends or nothing more can
    /// be stored.
    async fn run(
        mut self,
        mut guard: ConnectionGuard,
        mut requests: mpsc::Receiver<WriteRequest>,
        events: mpsc::Sender<ProgressEvent>,
    ) {
        let mut checks = tokio::time::interval(CHECK_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                biased;
                // A relay that can't store should not stream: another may be about to take over.
                reason = guard.ended() => {
                    let reason = reason.map(|error| postgres::describe(&error)).unwrap_or_default();
                    let text = format!("Postgres closed the session that stores progress: {reason}");
                    Some(ProgressEvent::Failed(text))
                }
                _ = checks.tick(), if !self.has_lapsed => self.check_promises().await,
                request = requests.recv() => match request {
                    Some(request) => Some(self.store(request).await),
                    None => return,
                },
            };
            let Some(event) = event else { continue };
            let is_last = matches!(
                event,
                ProgressEvent::Failed(_) | ProgressEvent::Unread(_) | ProgressEvent::Unsent(_)
            );
            // The receiver is gone: the session has ended.
            if events.send(event).await.is_err() || is_last {
                return;
            }
        }
    }

    async fn store(&mut self, request: WriteRequest) -> ProgressEvent {
        let WriteRequest { done, skipped } = request;
        let position = done.confirmed().lsn();
        match self.statement.store(&self.client, done, &skipped).await {
            Ok(Stored::Done) if position <= self.position => ProgressEvent::Stored(done, None),
            Ok(Stored::Done) => match self.statement.safe_once_read_to(&self.client).await {
                Ok(safe_once_read_to) => {
                    self.position = position;
                    ProgressEvent::Stored(done, Some((StoredLsn(position), safe_once_read_to)))
                }
                Err(error) => ProgressEvent::Failed(format!(
                    "can't read the end of the log: {}",
                    postgres::describe(&error)
                )),
            },
            Ok(Stored::Gone) => self.check_promises().await.unwrap_or_else(|| {
                ProgressEvent::Failed(
                    "the slot's row in postrider.progress was deleted or replaced, or messages are \
                     promised that this relay does not read"
                        .to_owned(),
                )
            }),
            Ok(Stored::Unread(tables)) => ProgressEvent::Unread(tables),
            Err(error) => ProgressEvent::Failed(format!(
                "can't store progress: {}",
                postgres::describe(&error)
            )),
        }
    }

    /// Checks whether the promises are kept. None: they are.
    async fn check_promises(&mut self) -> Option<ProgressEvent> {
        self.find_broken_promise().await.unwrap_or_else(|error| {
            Some(ProgressEvent::Failed(format!(
                "can't check whether the publication is intact: {}",
                postgres::describe(&error)
            )))
        })
    }

    async fn find_broken_promise(
        &mut self,
    ) -> Result<Option<ProgressEvent>, tokio_postgres::Error> {
        let Reading { slot, publication, names, .. } = &self.reading;
        let promises = coverage::find_promises(&self.client, slot, publication, names).await?;
        let lapses = lapses(&promises, true);
        if !lapses.is_empty() {
            coverage::note_unlogged(&self.client, slot).await?;
        }
        if let Some(unsent) = Unsent::find(slot, publication, &promises) {
            return Ok(Some(ProgressEvent::Unsent(unsent)));
        }
        if !lapses.is_empty() {
            self.has_lapsed = true;
            return Ok(Some(ProgressEvent::Lapsed(lapses)));
        }
        if self.noted_at.is_none_or(|at| at.elapsed() >= NOTE_EVERY) {
            coverage::note_intact(&self.client, slot, publication, names).await?;
            self.noted_at = Some(Instant::now());
        }
        Ok(None)
    }
}
