//! Whether the relay that has the slot is still there: an advisory lock, and what it allows.
//!
//! The slot is the mutex: while a walsender has it, nobody else can read it. But a walsender
//! outlives a relay whose machine or network has died, until `wal_sender_timeout` ends it. So every
//! relay holds a lock, *shared*, from before its stream until its end, on an ordinary session whose
//! death the server notices within seconds. A standby that can take that lock *exclusively* knows
//! that no relay of the slot is left, and may terminate a walsender of our own that still has the
//! slot. The lock allows nothing else.

use std::time::SystemTime;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row, Statement};

use crate::config::{PostgresConfig, quote_identifier};
use crate::postgres::Server;
use crate::postgres::locks::RELAY_CLASS;
use crate::postgres::session_settings::{LIVENESS, STANDBY};
use crate::replication::walsender_name;

/// Shows that a relay of this slot is running, as long as the session lives. False: another program
/// has the lock, or waits for it. Meanwhile no standby can take it either, but that can end at any
/// moment: see [`try_hold`].
pub(crate) async fn hold(client: &Client, slot: &str) -> Result<bool, Error> {
    const SQL: &str = "SELECT pg_advisory_lock_shared($1, hashtext($2))";
    client.batch_execute(LIVENESS).await?;
    match client.execute(SQL, &[&RELAY_CLASS, &slot]).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            tracing::warn!(
                "another program holds the advisory lock ({RELAY_CLASS}, hashtext('{slot}')); \
                 continuing without it, and retrying every second: until then a standby can't \
                 see whether this relay is running"
            );
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The same without waiting. To be tried until it succeeds, several times within the three seconds
/// after which a standby concludes from a free lock that no relay is left.
pub(crate) async fn try_hold(client: &Client, slot: &str) -> Result<bool, Error> {
    const SQL: &str = "SELECT pg_try_advisory_lock_shared($1, hashtext($2))";
    let is_held = client.query_one(SQL, &[&RELAY_CLASS, &slot]).await?.try_get(0)?;
    if is_held {
        tracing::info!(
            "the advisory lock ({RELAY_CLASS}, hashtext('{slot}')) was acquired after another \
             program released it: a standby can see that this relay is running"
        );
    }
    Ok(is_held)
}

/// Who has the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    /// Identifies the session, together with the pid. Known only if our role is allowed to see the
    /// session.
    pub(crate) started: Option<SystemTime>,
    pub(crate) application: Option<String>,
    pub(crate) address: Option<String>,
    /// It is the walsender of a relay with our role and our configuration.
    pub(crate) ours: bool,
    /// No relay of this slot holds the lock.
    pub(crate) orphaned: bool,
}

impl Holder {
    fn read(row: &Row) -> Result<Option<Self>, Error> {
        let Some(pid) = row.try_get(0)? else { return Ok(None) };
        let (started, application) = (row.try_get(1)?, row.try_get(2)?);
        let (address, ours, orphaned) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
        Ok(Some(Holder { pid, started, application, address, ours, orphaned }))
    }

    pub(crate) fn is_same_session(&self, other: &Holder) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

#[cfg(test)]
impl Holder {
    pub(crate) fn of_ours(pid: i32, orphaned: bool) -> Self {
        let (started, address) = (Some(SystemTime::UNIX_EPOCH), Some("192.0.2.7".to_owned()));
        Holder { pid, started, application: None, address, ours: true, orphaned }
    }
}

/// For people.
impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PID {}", self.pid)?;
        if let Some(application) = self.application.as_ref().filter(|name| !name.is_empty()) {
            write!(f, " ({application})")?;
        }
        match (&self.address, self.started) {
            (Some(address), _) => write!(f, " at {address}"),
            (None, Some(_)) => f.write_str(" on the server's own machine"),
            (None, None) => f.write_str(" of another role"),
        }
    }
}

/// Checks a slot from outside, repeatedly, so its statement is prepared once.
pub(crate) struct SlotProbe<'a> {
    client: &'a Client,
    config: &'a PostgresConfig,
    /// The application name of our own walsenders.
    name: String,
    pub(crate) role: String,
    statement: Statement,
}

impl<'a> SlotProbe<'a> {
    pub(crate) async fn prepare(
        client: &'a Client,
        config: &'a PostgresConfig,
        server: &Server,
    ) -> Result<Self, Error> {
        // Without a row, or without a holder, opening a session finds out more. The lock is
        // released at the end of the statement.
        const SQL: &str = "SELECT s.active_pid, a.backend_start, a.application_name, \
                host(a.client_addr), \
                coalesce(a.application_name = $2 AND a.usename = session_user, false), \
                pg_try_advisory_xact_lock($3, hashtext($1)) \
           FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid \
          WHERE s.slot_name = $1 AND EXISTS (SELECT FROM pg_publication WHERE pubname = $4)";
        client.batch_execute(STANDBY).await?;
        let statement = client.prepare(SQL).await?;
        let name = walsender_name(&server.config, &config.slot);
        let role = quote_identifier(server.config.get_user().unwrap_or_default());
        Ok(SlotProbe { client, config, name, role, statement })
    }

    /// Who has the slot; `None` if it is free, or something is wrong.
    pub(crate) async fn holder(&self) -> Result<Option<Holder>, Error> {
        let PostgresConfig { slot, publication, .. } = self.config;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [slot, &self.name, &RELAY_CLASS, publication];
        let row = self.client.query_opt(&self.statement, &values).await?;
        row.as_ref().map(Holder::read).transpose().map(Option::flatten)
    }

    /// Terminates a walsender, if it is still the same one, still ours, and still without its
    /// relay. Returns whether it did; the caller handles the error of a missing right.
    pub(crate) async fn terminate(&self, holder: &Holder) -> Result<bool, Error> {
        const SQL: &str = "WITH alone AS MATERIALIZED \
                (SELECT pg_try_advisory_xact_lock($3, hashtext($1)) AS is_so) \
            SELECT pg_terminate_backend(a.pid) \
              FROM alone, pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid \
             WHERE alone.is_so AND s.slot_name = $1 AND a.application_name = $2 \
               AND a.usename = session_user AND a.pid = $4 AND a.backend_start = $5 \
               AND a.backend_type = 'walsender'";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&self.config.slot, &self.name, &RELAY_CLASS, &holder.pid, &holder.started];
        let row = self.client.query_opt(SQL, &values).await?;
        row.map_or(Ok(false), |row| row.try_get(0))
    }
}

/// Whether we lack the right to terminate a walsender, as opposed to any other failure.
pub(crate) fn is_denied(error: &Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
