//! Retries parked events: claims what is due, sends it, and records what became of it.
//!
//! Several instances can do so at once; the side table divides the work among them. Each has a
//! connection and a sink of its own, so that neither the stream nor its producers wait for parked
//! events. While the destination is unreachable, nothing counts as an attempt.

mod batch;
mod key_notifier;
mod unwritten;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

pub use self::key_notifier::KeyDelivered;

use self::key_notifier::KeyNotifier;
use self::unwritten::UnwrittenResults;
use super::notices::log_died;
use super::store::{self, LoggedOrphans};
use crate::config::{Config, OutboxTable, UndeliveredConfig};
use crate::log_limit::LogLimit;
use crate::postgres::{self, Connected, Connection};
use crate::retry::RetryPause;
use crate::rights::{NoAccess, check_access};
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::Broken;
pub(crate) use postrider_core::parking::Observer;
use postrider_core::parking::notices::Notices;

/// How often the side table's rows are counted; counting takes at most this share of the time.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const COUNT_SHARE: u32 = 20;
/// How long counting pauses after it took too long.
const COUNT_AGAIN: Duration = Duration::from_secs(600);
/// How often rows that wait without cause are looked for, and finished ones deleted.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);
const CLEAN_BATCH: usize = 1000;
const CLEAN_BATCHES_MAX: usize = 20;
/// The longest pause while Postgres or the destination is unreachable.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
const RETRY_PAUSE_BASE: Duration = Duration::from_millis(500);
/// After a session that lasted longer than this, the pauses begin with the shortest again.
const GOOD_SESSION: Duration = UPKEEP_EVERY;
/// The same problem is logged again after this long.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Why a session with Postgres ended.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("{0}")]
    Connect(#[from] postgres::ConnectError),
    #[error("{}", postgres::describe(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("{}; {}", .0.text, .0.fix)]
    NoAccess(NoAccess),
    #[error("the connection to Postgres ended")]
    Ended,
}

/// Retries parked events until shutdown.
pub struct Poller<S, O> {
    config: UndeliveredConfig,
    connection: Connection,
    slot: String,
    tables: Vec<OutboxTable>,
    bytes_max: usize,
    /// How long delivered rows are kept: from them the cleaner learns when rows of the outbox were
    /// published.
    delivered_kept: Duration,
    owner: String,
    sink: S,
    /// The sink has been started, and nothing of an earlier batch can be in flight in it.
    is_sink_ready: bool,
    observer: O,
    key_notifier: KeyNotifier,
    /// Something may be due before its time has come.
    kick: Arc<Notify>,
    /// Receives the error if an operator has to act before the sink can be used.
    refusals: mpsc::Sender<Broken>,
    unwritten: UnwrittenResults,
    /// Log lines about events that have become dead.
    notices: Notices,
    /// After batches that could not be sent.
    unsent_pause: RetryPause,
    log_limit: LogLimit,
    orphans: LoggedOrphans,
    count_at: Instant,
    upkeep_at: Instant,
}

impl<S: Sink, O: Observer> Poller<S, O> {
    /// A poller with a sink of its own. Its sink should give records up within half a lease.
    pub fn new(
        config: &Config,
        sink: S,
        key_events: mpsc::Sender<KeyDelivered>,
        kick: Arc<Notify>,
        refusals: mpsc::Sender<Broken>,
        observer: O,
    ) -> Self {
        let now = Instant::now();
        let host = whoami::hostname().unwrap_or_default();
        let owner = format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>());
        let poll_interval = config.undelivered.poll_interval;
        let unsent_pause_base = RETRY_PAUSE_BASE.max(poll_interval).min(RETRY_PAUSE_MAX);
        Poller {
            config: config.undelivered.clone(),
            connection: config.postgres.connection.clone(),
            slot: config.postgres.slot.clone(),
            tables: config.postgres.tables.clone(),
            bytes_max: config.limits.in_flight_bytes,
            delivered_kept: if config.cleaner.enabled {
                config.undelivered.retention.max(config.cleaner.retention)
            } else {
                config.undelivered.retention
            },
            owner,
            sink,
            is_sink_ready: false,
            observer,
            key_notifier: KeyNotifier::new(key_events),
            kick,
            refusals,
            unwritten: UnwrittenResults::default(),
            notices: Notices::new(now.into_std()),
            unsent_pause: RetryPause::new(unsent_pause_base, RETRY_PAUSE_MAX, GOOD_SESSION),
            log_limit: LogLimit::changes(LOG_INTERVAL),
            orphans: LoggedOrphans::default(),
            count_at: now,
            upkeep_at: now,
        }
    }

    /// Polls until draining is asked for. Rows claimed by then are finished or released.
    pub async fn run(mut self, mut shutdown: Shutdown) {
        self.poll(&mut shutdown).await;
        // Events that became dead since the last summary.
        log_died(self.notices.end_period(std::time::Instant::now()));
    }

    /// Reconnects until draining is asked for.
    async fn poll(&mut self, shutdown: &mut Shutdown) {
        let mut pause = RetryPause::new(RETRY_PAUSE_BASE, RETRY_PAUSE_MAX, GOOD_SESSION);
        loop {
            let began = Instant::now();
            let error = match self.session(shutdown).await {
                Ok(()) => return,
                Err(error) => error,
            };
            self.observer.fetch_error();
            self.warn("can't retry parked events now; retrying", &error.to_string());
            tokio::select! {
                () = shutdown.draining() => return,
                () = tokio::time::sleep(pause.after_failure(began.elapsed())) => {}
            }
        }
    }

    /// Works on one connection. `Ok`: it was asked to stop.
    async fn session(&mut self, shutdown: &mut Shutdown) -> Result<(), PollError> {
        let mut stop = shutdown.clone();
        let opening = async {
            let connected = postgres::connect(&self.connection).await?;
            store::begin_session(&connected.client).await?;
            let lacking = check_access(&connected.client).await?;
            lacking.map_or(Ok(connected), |lacking| Err(PollError::NoAccess(lacking)))
        };
        let Connected { mut client, mut guard, .. } = tokio::select! {
            biased;
            () = stop.draining() => return Ok(()),
            connected = opening => connected?,
        };
        loop {
            self.write_results(&mut client).await?;
            let pause = self.poll_once(&mut client, shutdown).await?;
            match self.run_upkeep(&mut client).await {
                // That took too long, but the rest need not wait for it.
                Err(PollError::Postgres(error))
                    if error.code() == Some(&SqlState::QUERY_CANCELED) =>
                {
                    self.warn("can't count or clean up the side table", &error.to_string());
                    self.count_at = Instant::now() + COUNT_AGAIN;
                }
                other => other?,
            }
            self.key_notifier.publish();
            tokio::select! {
                biased;
                () = stop.draining() => return Ok(()),
                error = guard.ended() => {
                    return Err(error.map_or(PollError::Ended, PollError::Postgres));
                }
                () = self.rest(pause) => {}
            }
        }
    }

    /// Waits until it is time to look again. Meanwhile the sink receives answers to its questions,
    /// for example that a topic exists now. Nothing is in flight.
    async fn rest(&mut self, pause: Duration) {
        let kicked = pause <= self.config.poll_interval;
        let time = tokio::time::sleep(pause);
        tokio::pin!(time);
        let mut reports = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = &mut time => return,
                () = self.kick.notified(), if kicked => return,
                () = self.sink.receive(&mut reports), if self.is_sink_ready => reports.clear(),
            }
        }
    }

    /// The pause after a batch of which nothing could be sent.
    fn pause_after_failure(&mut self, broken: &Broken) -> Duration {
        if broken.fix.is_some() {
            // If the channel is full, it holds the same error.
            let _ = self.refusals.try_send(broken.clone());
        }
        let fix = broken.fix.as_ref().map(|fix| format!("; fix: {fix}")).unwrap_or_default();
        let text = format!("{broken}{fix}");
        self.warn("parked events can't be sent now; retrying", &text);
        self.unsent_pause.after_failure(Duration::ZERO)
    }

    fn warn(&mut self, what: &str, reason: &str) {
        if self.log_limit.allows(reason, Instant::now().into_std()) {
            tracing::warn!(reason, "{what}");
        }
    }
}
