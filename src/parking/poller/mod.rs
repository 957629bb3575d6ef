//! Retries parked events: claims what is due, sends it, and records what became of it.
//!
//! Several instances can do so at once; the side table divides the work among them. Each has a
//! connection and a sink of its own, so that neither the stream nor its producers wait for parked
//! events. While the destination is unreachable, nothing counts as an attempt.

mod news;
mod observer;
mod settlement;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use self::news::KeyNotifier;
pub use self::observer::KeyDelivered;
use self::settlement::Settlement;
use super::notices::{Fact, log};
use super::sender::{Dispatched, Options, Sent, Timestamp, dispatch};
use super::store::{self, Claim, LoggedOrphans, ParkedRow};
use crate::clock;
use crate::config::{Config, Order, OutboxTable, UndeliveredConfig};
use crate::log_limit::LogLimit;
use crate::postgres::{self, Connected, Connection};
use crate::retry::RetryPause;
use crate::rights::{NoAccess, check_access};
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::Broken;
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::parking::Completeness;
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
    sink_open: bool,
    observer: O,
    news: KeyNotifier,
    /// Something may be due before its time has come.
    kick: Arc<Notify>,
    /// Receives the error if an operator has to act before the sink can be used.
    refusals: mpsc::Sender<Broken>,
    /// What became of claimed rows, as far as the side table does not have it yet.
    settlement: Settlement,
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
        news: mpsc::Sender<KeyDelivered>,
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
            delivered_kept: match config.cleaner.enabled {
                true => config.undelivered.retention.max(config.cleaner.retention),
                false => config.undelivered.retention,
            },
            owner,
            sink,
            sink_open: false,
            observer,
            news: KeyNotifier::new(news),
            kick,
            refusals,
            settlement: Settlement::default(),
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
        log(Fact::Died, self.notices.close(std::time::Instant::now()));
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
            self.warn("can't retry parked events now; trying again", &error.to_string());
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
            self.settle(&mut client).await?;
            let pause = self.turn(&mut client, shutdown).await?;
            match self.look_after(&mut client).await {
                // That took too long, but the rest need not wait for it.
                Err(PollError::Postgres(error))
                    if error.code() == Some(&SqlState::QUERY_CANCELED) =>
                {
                    self.warn("can't count or clean up the side table", &error.to_string());
                    self.count_at = Instant::now() + COUNT_AGAIN;
                }
                other => other?,
            }
            self.news.publish();
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
                () = self.sink.receive(&mut reports), if self.sink_open => reports.clear(),
            }
        }
    }

    /// Processes one batch, if something is due. Returns how long to wait before looking again.
    async fn turn(
        &mut self,
        client: &mut Client,
        shutdown: &mut Shutdown,
    ) -> Result<Duration, PollError> {
        let idle = self.config.poll_interval;
        let due = store::due(client, &self.slot).await?;
        self.observer.taken_over(due.takeovers);
        if due.leases {
            self.expire(client).await?;
        }
        if !(due.events || due.leases) {
            return Ok(idle);
        }
        if !self.sink_open
            && let Err(broken) = self.sink.restart().await
        {
            return Ok(self.pause_after_failure(&broken));
        }
        self.sink_open = true;
        // From before the claim: the lease begins no earlier.
        let deadline = Instant::now() + self.config.lease / 2;
        let mut rows = self.claim(client).await?;
        if rows.is_empty() {
            return Ok(idle);
        }
        let missing = match self.load_references(client, &mut rows).await {
            Ok(missing) => missing,
            Err(error) => {
                let untried = rows.iter().map(|_| Sent::NotTried).collect();
                self.settlement.note(&rows, untried, &self.config, rand::random);
                return Err(error);
            }
        };
        let ahead = clock::server_ahead_micros(&*client, clock::QUESTION).await?;
        let options = Options {
            server_ahead_micros: ahead.unwrap_or_default(),
            replayed: false,
            patient: false,
            timestamp: Timestamp::Original,
            keep_order: self.keeps_order(),
            deadline,
        };
        let Dispatched { mut results, trouble, open } =
            dispatch(&mut self.sink, &rows, &options, shutdown).await;
        self.sink_open = open;
        for (place, why) in missing {
            if let Some(result @ Sent::Reject(_)) = results.get_mut(place) {
                *result = why;
            }
        }
        let progress = results.iter().any(|sent| *sent != Sent::NotTried);
        let delivered = results.contains(&Sent::Delivered);
        // There may be more. Rows refused now are not due before their pause ends, so this comes to
        // an end; if it were slower, events that can't be sent could delay those that can.
        let more = rows.len() >= self.config.batch && progress && trouble.is_none();
        self.settlement.note(&rows, results, &self.config, rand::random);
        self.settle(client).await?;
        match trouble {
            Some(broken) if !progress => Ok(self.pause_after_failure(&broken)),
            _ => {
                self.unsent_pause.reset();
                Ok(if delivered || more { Duration::ZERO } else { idle })
            }
        }
    }

    async fn claim(&self, client: &mut Client) -> Result<Vec<ParkedRow>, PollError> {
        let claim = Claim {
            slot: &self.slot,
            owner: &self.owner,
            batch: self.config.batch,
            bytes_max: self.bytes_max,
            lease: self.config.lease,
            order: self.config.order,
        };
        Ok(store::claim(client, &claim).await?)
    }

    /// Reads the values that stayed in the outbox; returns which values are unavailable, with the
    /// consequence. What Postgres itself reports, for example a missing right, can be fixed.
    async fn load_references(
        &self,
        client: &Client,
        rows: &mut [ParkedRow],
    ) -> Result<Vec<(usize, Sent)>, PollError> {
        let mut missing = Vec::new();
        for (place, row) in rows.iter_mut().enumerate() {
            if row.form != Completeness::Reference {
                continue;
            }
            match store::reference_value(client, row, &self.tables).await {
                Ok(Ok(value)) => {
                    row.value = value;
                    row.form = Completeness::Whole;
                }
                Ok(Err(refusal)) => missing.push((place, Sent::Reject(refusal))),
                Err(error) if error.as_db_error().is_some() && !client.is_closed() => {
                    let detail = format!("can't read the value: {}", postgres::describe(&error));
                    let refusal = Refusal { reason: Reason::VALUE_MISSING, detail };
                    missing.push((place, Sent::Retry(refusal)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(missing)
    }

    fn keeps_order(&self) -> bool {
        self.config.order != Order::Continue
    }

    /// Records what became of claimed rows; what could not be written is kept for the next
    /// connection.
    async fn settle(&mut self, client: &mut Client) -> Result<(), PollError> {
        let terms = settlement::Terms {
            slot: &self.slot,
            owner: &self.owner,
            order: self.config.order,
            count_max: self.config.batch + 1,
        };
        let written = self.settlement.write(client, &terms, &mut self.observer).await;
        self.news.add(self.settlement.take_moved());
        let died = self.settlement.take_died();
        log(Fact::Died, self.notices.note(died, std::time::Instant::now()));
        self.news.publish();
        Ok(written?)
    }

    /// The pause after a batch of which nothing could be sent.
    fn pause_after_failure(&mut self, broken: &Broken) -> Duration {
        if broken.fix.is_some() {
            // If the channel is full, it holds the same error.
            let _ = self.refusals.try_send(broken.clone());
        }
        let fix = broken.fix.as_ref().map(|fix| format!("; fix: {fix}")).unwrap_or_default();
        let text = format!("{broken}{fix}");
        self.warn("parked events can't be sent now; trying again", &text);
        self.unsent_pause.after_failure(Duration::ZERO)
    }

    fn warn(&mut self, what: &str, reason: &str) {
        if self.log_limit.allows(reason, Instant::now().into_std()) {
            tracing::warn!(reason, "{what}");
        }
    }
}
