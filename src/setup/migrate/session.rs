//! The session of a command that changes the database: it runs alone, and with its own settings.
//!
//! Commands wait for each other by locking a table of schema `postrider`, which requires a right.
//! The lock's mode needs no transaction number; otherwise the creation of a slot would wait for it.
//! Before that table exists, and for a role that is not allowed to lock it, an advisory lock is
//! used instead. Every role can take that one, so the wait for it is limited.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::postgres::locks::COMMAND;
use crate::postgres::{self, ConnectError, ConnectionGuard, Purpose, Server, log_while_waiting};

/// How long to wait for the advisory lock, as a setting of Postgres.
pub(super) const ADVISORY_LOCK_TIMEOUT: &str = "30s";

/// Conflicts with itself, and with nothing that a relay or an application does.
pub(super) const LOCK: &str = "LOCK TABLE postrider.command_lock IN SHARE UPDATE EXCLUSIVE MODE";

/// A condition in SQL: the table exists, and the role is allowed to lock it. On a standby nobody
/// is.
pub(super) const CAN_LOCK: &str = "EXISTS (SELECT FROM pg_class c \
      JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'postrider' AND c.relname = 'command_lock' \
       AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'UPDATE') \
       AND NOT pg_is_in_recovery())";

const ANOTHER: &str =
    "waiting for another `postrider migrate`, `recover` or `teardown` on this database to end";

/// Why the command can't run now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandLockError {
    #[error(transparent)]
    Statement(#[from] Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("advisory lock {COMMAND} is held by {holder}")]
    Held {
        /// `PID 4711 (user shop)`.
        holder: String,
    },
}

impl CommandLockError {
    /// How to fix `Held`.
    pub(crate) fn fix_of_held(command: &str) -> String {
        format!(
            "wait until it has ended if it is a `postrider migrate` or `teardown`; otherwise \
             terminate it (SELECT pg_terminate_backend(PID)), then run {command} again"
        )
    }
}

/// Applies the settings. If there is no table to lock, returns once no other command of this kind
/// is running; otherwise [`lock`] has to follow.
pub(crate) async fn begin(client: &Client) -> Result<(), CommandLockError> {
    Purpose::Command.begin(client).await?;
    if can_lock(client).await? { Ok(()) } else { lock_by_number(client).await }
}

/// In a transaction, which then is alone until its end. False: there is nothing to lock, or no
/// longer.
pub(crate) async fn lock(client: &Client) -> Result<bool, Error> {
    if !can_lock(client).await? {
        return Ok(false);
    }
    client.batch_execute("SAVEPOINT command_lock").await?;
    match log_while_waiting(client.batch_execute(LOCK), ANOTHER).await {
        Ok(()) => Ok(true),
        // It waited for a teardown.
        Err(error) if is_gone(&error) => {
            client.batch_execute("ROLLBACK TO SAVEPOINT command_lock").await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn is_gone(error: &Error) -> bool {
    let gone = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    error.code().is_some_and(|code| gone.contains(code))
}

/// The lock of a command that needs several transactions: held by a session that does nothing else.
pub(super) struct CommandLock {
    _client: Client,
    _guard: ConnectionGuard,
}

impl CommandLock {
    /// None if there is nothing to lock.
    pub(super) async fn take(
        client: &Client,
        server: &Server,
    ) -> Result<Option<Self>, CommandLockError> {
        if !can_lock(client).await? {
            return Ok(None);
        }
        let (holder, guard) = postgres::connect_server(server).await?;
        holder.batch_execute("BEGIN").await?;
        let is_locked = lock(&holder).await?;
        Ok(is_locked.then_some(CommandLock { _client: holder, _guard: guard }))
    }
}

async fn can_lock(client: &Client) -> Result<bool, Error> {
    client.query_one(&format!("SELECT {CAN_LOCK}"), &[]).await?.try_get(0)
}

async fn lock_by_number(client: &Client) -> Result<(), CommandLockError> {
    const HOLDER: &str = "SELECT string_agg(format('PID %s (user %s)', l.pid, \
                   coalesce(a.usename::text, 'unknown')), ', ') \
          FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
           AND (l.classid::bigint << 32) | l.objid::bigint = $1";
    client.batch_execute(&format!("SET lock_timeout = '{ADVISORY_LOCK_TIMEOUT}'")).await?;
    let locked = client.query_one("SELECT pg_advisory_lock($1)", &[&COMMAND]);
    match log_while_waiting(locked, ANOTHER).await {
        Ok(_) => {}
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            let holder: Option<String> = client.query_one(HOLDER, &[&COMMAND]).await?.try_get(0)?;
            let holder = holder.unwrap_or_else(|| "a session that has ended".to_owned());
            return Err(CommandLockError::Held { holder });
        }
        Err(error) => return Err(error.into()),
    }
    client.batch_execute("SET lock_timeout = 0").await?;
    Ok(())
}
