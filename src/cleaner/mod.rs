//! The cleaner: deletes rows of the outbox tables that are old and certainly done (ADR 18).
//!
//! Rows older than the retention are picked; then the log's end is read, which lies after all their
//! commits. Once the stored progress of every slot that covers the table has passed that end, their
//! events are published or parked, and the rows whose events are not parked are deleted. Rows that
//! were never in a slot are not picked: only transactions that began after the slot count. If
//! anything changes in between, for example a slot is recreated, what was picked is discarded.
//!
//! It works only while a session of this relay streams, on a connection of its own.

mod batch;
mod clean;
mod coverage;
mod detached;
mod inbox;
mod mark;
mod partition;
mod permit;
pub(crate) mod pick;
pub(crate) mod rules;
mod scan;
mod sql;
pub(crate) mod table;
mod uncertain_until;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

pub(crate) use self::permit::{Permit, Permits, Sessions, Streaming};
use self::scan::Cursor;
use self::table::CleanableTable;
use crate::config::{CleanerConfig, Config, OutboxTable};
use crate::log_limit::LogLimit;
use crate::ops::{Metrics, Vitals};
use crate::postgres::{self, Purpose};
use crate::retry::RetryPause;
use crate::shutdown::Shutdown;

/// The longest pause while Postgres is unreachable.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
const RETRY_PAUSE_BASE: Duration = Duration::from_millis(500);
/// After a session that lasted longer than this, the pauses begin with the shortest again.
const GOOD_SESSION: Duration = RETRY_PAUSE_MAX;
/// The same warning is logged again after this long.
const LOG_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Batches of the inbox in one round.
const INBOX_BATCHES_MAX: usize = 100;

/// Why cleaning stopped for now.
#[derive(Debug, thiserror::Error)]
enum CleanError {
    #[error("{0}")]
    Connect(#[from] postgres::ConnectError),
    #[error("{}", postgres::describe(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("the connection to Postgres ended")]
    Ended,
}

/// The task that cleans.
pub(crate) struct Cleaner {
    config: CleanerConfig,
    inbox_retention: Option<Duration>,
    slot: String,
    tables: Vec<OutboxTable>,
    metrics: Metrics,
    vitals: Arc<Vitals>,
    sessions: Sessions,
    log_limit: LogLimit,
    /// By leaf, where the next scan begins, as long as it is covered in the same way.
    cursors: HashMap<u32, (String, Cursor)>,
}

impl Cleaner {
    pub(crate) fn new(
        config: &Config,
        metrics: Metrics,
        vitals: Arc<Vitals>,
        sessions: Sessions,
    ) -> Self {
        Cleaner {
            config: config.cleaner.clone(),
            inbox_retention: config.inbox.retention,
            slot: config.postgres.slot.clone(),
            tables: config.postgres.tables.clone(),
            metrics,
            vitals,
            sessions,
            log_limit: LogLimit::each(LOG_INTERVAL),
            cursors: HashMap::new(),
        }
    }

    /// Cleans while sessions stream, until draining begins. What is picked at that moment is
    /// discarded.
    pub(crate) async fn run(mut self, mut shutdown: Shutdown) {
        if !self.config.enabled && self.inbox_retention.is_none() {
            return;
        }
        let mut pause = RetryPause::new(RETRY_PAUSE_BASE, RETRY_PAUSE_MAX, GOOD_SESSION);
        loop {
            let mut sessions = self.sessions.clone();
            let session = tokio::select! {
                biased;
                () = shutdown.draining() => return,
                session = sessions.current() => session,
            };
            let began = Instant::now();
            let ended = tokio::select! {
                biased;
                () = shutdown.draining() => return,
                () = sessions.changed() => continue,
                ended = self.session(&session) => ended,
            };
            let Err(error) = ended else { continue };
            let reason = error.to_string();
            if self.log_limit.allows(&reason, Instant::now()) {
                tracing::warn!(reason, "cannot clean the outbox tables; retrying");
            }
            tokio::select! {
                () = shutdown.draining() => return,
                () = tokio::time::sleep(pause.after_failure(began.elapsed())) => {}
            }
        }
    }

    /// Works on one connection until it fails.
    async fn session(&mut self, streaming: &Streaming) -> Result<(), CleanError> {
        let (client, mut guard) = postgres::connect_server(&streaming.server).await?;
        Purpose::Cleaner.begin(&client).await?;
        loop {
            tokio::select! {
                biased;
                error = guard.ended() => {
                    return Err(error.map_or(CleanError::Ended, CleanError::Postgres));
                }
                () = self.round(&client, &streaming.generation) => {}
            }
            if client.is_closed() {
                return Err(CleanError::Ended);
            }
            tokio::time::sleep(self.config.interval).await;
        }
    }

    /// Cleans every table once. A failure with one does not affect the others.
    async fn round(&mut self, client: &Client, generation: &str) {
        let tables = if self.config.enabled { self.tables.clone() } else { Vec::new() };
        for table in tables {
            if self.vitals.why_no_progress().is_some() {
                return;
            }
            if let Err(error) = self.clean_table(client, &table, generation).await {
                self.warn(&table.name.to_string(), &postgres::describe(&error));
            }
        }
        if let Err(error) = self.clean_inbox(client).await {
            self.warn("postrider.inbox", &postgres::describe(&error));
        }
    }

    async fn clean_table(
        &mut self,
        client: &Client,
        table: &OutboxTable,
        generation: &str,
    ) -> Result<(), tokio_postgres::Error> {
        match CleanableTable::find(client, table, self.config.retention.as_secs_f64()).await? {
            Ok(outbox) => self.clean(client, &outbox, generation).await,
            Err(why) => {
                self.warn(&table.name.to_string(), &why.to_string());
                Ok(())
            }
        }
    }

    async fn clean_inbox(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let Some(retention) = self.inbox_retention else { return Ok(()) };
        if let Some(why) = inbox::obstacle(client).await? {
            self.warn("postrider.inbox", &why);
            return Ok(());
        }
        let batch = i64::try_from(self.config.batch).unwrap_or(i64::MAX);
        for _ in 0..INBOX_BATCHES_MAX {
            let deleted = inbox::clean(client, retention.as_secs_f64(), batch).await?;
            if deleted < batch.unsigned_abs() {
                break;
            }
        }
        Ok(())
    }

    fn warn(&mut self, table: &str, reason: &str) {
        if self.log_limit.allows(&format!("{table}: {reason}"), Instant::now()) {
            tracing::warn!(table, reason, "rows of this table are not cleaned");
        }
    }
}
