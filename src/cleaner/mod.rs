//! The cleaner: deletes rows of the outbox tables that are old and certainly done (ADR 18).
//!
//! Rows older than the retention are picked; then the log's end is read, behind which no commit of
//! theirs can be; once the stored progress of every slot that covers the table has passed it, their
//! events are published or parked, and those that are not parked go. Rows that were never in a slot
//! don't get there: only transactions count that began after the slot did. Whatever changes in
//! between, a slot made anew say, makes what was picked worthless.
//!
//! It works only while a session of this relay streams, on a connection of its own.

mod clean;
pub mod coverage;
pub mod floor;
mod inbox;
mod mark;
pub mod outbox;
pub mod pace;
mod partition;
mod permit;
pub mod pick;
pub mod removal;
mod sql;
mod told;
mod version;
pub mod walk;

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
use crate::postgres;
use crate::shutdown::Shutdown;
use postrider_core::parking::backoff;

/// The longest pause while Postgres is away.
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

/// Cleans until it is told to stop.
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

    /// Cleans while sessions stream, until draining is asked for. What is picked then is forgotten.
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
                tracing::warn!(reason, "can't clean the outbox tables; trying again");
            }
            failures = if began.elapsed() > AWAY_MAX { 1 } else { failures + 1 };
            let pause = backoff::delay(failures, AWAY_BASE, AWAY_MAX, rand::random);
            tokio::select! {
                () = shutdown.draining() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Works on one connection until it breaks.
    async fn session(&mut self, streaming: &Streaming) -> Result<(), CleanError> {
        let (client, mut guard) = postgres::connect_server(&streaming.server).await?;
        begin_session(&client).await?;
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

    /// Looks at every table once. What goes wrong with one says nothing about the others.
    async fn round(&mut self, client: &Client, generation: &str) {
        let tables = if self.config.enabled { self.tables.clone() } else { Vec::new() };
        for table in tables {
            if self.vitals.trouble().is_some() {
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

/// Makes a session one that gets into nobody's way: it waits for locks so shortly that those who
/// queue up behind it hardly notice. A deletion that a crash of the server forgets is done again, so
/// nobody waits for the disk. Rows are looked up in the side table one by one: a plan from when it was
/// small, that reads all of it each time, must not outlive that time. Where it is read all the same,
/// the plan seems so dear that the server would compile it, which takes longer than to run it.
async fn begin_session(client: &Client) -> Result<(), tokio_postgres::Error> {
    client
        .batch_execute(
            "SET synchronous_commit = off; SET statement_timeout = '10min'; SET lock_timeout = '1s'; \
             SET idle_in_transaction_session_timeout = '5s'; \
             SET default_transaction_isolation = 'read committed'; SET enable_seqscan = off; \
             SET jit = off; SET row_security = off; SET search_path = pg_catalog, pg_temp; SET application_name = 'postrider cleaner'",
        )
        .await
}
