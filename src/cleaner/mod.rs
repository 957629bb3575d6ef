//! The cleaner: deletes rows of the outbox tables that are old and certainly done (ADR 18).
//!
//! Rows older than the retention are picked; then the log's end is read, which lies after all their
//! commits. Once the stored progress of every slot that covers the table has passed that end, their
//! events are published or parked, and the rows whose events are not parked are deleted. Rows that
//! were never in a slot are not picked: only transactions that began after the slot count. If
//! anything changes in between, for example a slot is recreated, what was picked is discarded.
//!
//! It works only while a session of this relay streams, on a connection of its own.

mod clean;
pub(crate) mod coverage;
pub(crate) mod floor;
mod inbox;
mod mark;
pub(crate) mod outbox;
pub(crate) mod pace;
mod partition;
mod permit;
pub(crate) mod pick;
pub(crate) mod removal;
mod sql;
mod told;
mod version;
pub(crate) mod walk;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use self::outbox::Outbox;
pub(crate) use self::permit::{Permit, Permits, Sessions, Streaming};
use self::told::Told;
use self::walk::Cursor;
use crate::config::{CleanerConfig, Config, OutboxTable};
use crate::ops::{Metrics, Vitals};
use crate::postgres::{self, Purpose};
use crate::shutdown::Shutdown;
use postrider_core::parking::backoff;

/// The longest pause while Postgres is unreachable.
const AWAY_MAX: Duration = Duration::from_secs(30);
const AWAY_BASE: Duration = Duration::from_millis(500);
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
    told: Told,
    /// Where the next walk through a leaf begins, as long as its standing is the same.
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
            told: Told::default(),
            cursors: HashMap::new(),
        }
    }

    /// Cleans while sessions stream, until draining begins. What is picked at that moment is
    /// discarded.
    pub(crate) async fn run(mut self, mut shutdown: Shutdown) {
        if !self.config.enabled && self.inbox_retention.is_none() {
            return;
        }
        let mut failures = 0;
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
            if self.told.is_news(&reason) {
                tracing::warn!(reason, "cannot clean the outbox tables; retrying");
            }
            failures = if began.elapsed() > AWAY_MAX { 1 } else { failures + 1 };
            let pause = backoff::delay(failures, AWAY_BASE, AWAY_MAX, rand::random);
            tokio::select! {
                () = shutdown.draining() => return,
                () = tokio::time::sleep(pause) => {}
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
            let cleaned = self.table(client, &table, generation).await;
            let name = table.name.to_string();
            match cleaned {
                Ok(()) => {}
                Err(error) => self.told.warn(&name, &postgres::describe(&error)),
            }
        }
        if let Err(error) = self.inbox(client).await {
            self.told.warn("postrider.inbox", &postgres::describe(&error));
        }
    }

    async fn table(
        &mut self,
        client: &Client,
        table: &OutboxTable,
        generation: &str,
    ) -> Result<(), tokio_postgres::Error> {
        match Outbox::find(client, table, self.config.retention.as_secs_f64()).await? {
            Ok(outbox) => self.clean(client, &outbox, generation).await,
            Err(why) => {
                self.told.warn(&table.name.to_string(), &why.to_string());
                Ok(())
            }
        }
    }

    async fn inbox(&mut self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let Some(retention) = self.inbox_retention else { return Ok(()) };
        if let Some(why) = inbox::obstacle(client).await? {
            self.told.warn("postrider.inbox", &why);
            return Ok(());
        }
        let batch = i64::try_from(self.config.batch).unwrap_or(i64::MAX);
        for _ in 0..INBOX_BATCHES_MAX {
            let cleaned = inbox::clean(client, retention.as_secs_f64(), batch).await?;
            if cleaned < batch.unsigned_abs() {
                break;
            }
        }
        Ok(())
    }
}
