//! Why a migration stopped, and how to fix it. Nothing is half done: each step is a transaction.

use std::borrow::Cow;

use tokio_postgres::error::SqlState;

use super::session::CommandLockError;
use crate::checks::Finding;
use crate::config::TableName;
use crate::postgres::{ConnectError, StatementError};
use crate::progress::{RECOVER, give_up};
use crate::replication::ReplicationError;
use crate::rights::{self, Lacking};

/// Why a migration stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    /// No connection could be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server, the slot, the publication or a table can't be used as it is.
    #[error(transparent)]
    Check(#[from] Finding),
    /// A promise is to be withdrawn that was not made.
    #[error("table {table} is not promised for slot {slot}")]
    NotPromised {
        /// The slot's name.
        slot: String,
        /// The table's name.
        table: TableName,
        /// The promised tables.
        promised: Vec<String>,
    },
    /// A promise is to be withdrawn that the next start would make again.
    #[error("table {table} can't be withdrawn while it is in postgres.tables")]
    StillConfigured {
        /// Its name.
        table: TableName,
    },
    /// Decoding fails on WAL that is older than its publication.
    #[error(
        "slot {slot} exists but publication {publication} does not; WAL between the slot's \
         position and a publication created now can't be decoded"
    )]
    SlotBeforePublication {
        /// The slot's name.
        slot: String,
        /// The publication's name.
        publication: String,
    },
    /// The table is missing, and the default table can't have the configured column names.
    #[error(
        "table {table} does not exist, and can't be created with the column names of the \
         configuration: {reason}"
    )]
    TableNotMade {
        /// Its name.
        table: TableName,
        /// Why not.
        reason: String,
    },
    /// Publishing old rows requires a slot that nobody has read.
    #[error("slot {slot} has already been read: older rows can no longer be published first")]
    SlotRead {
        /// Its name.
        slot: String,
    },
    /// The next relay would promise it again.
    #[error("postgres.messages is true: the relay still publishes events without a table")]
    MessagesConfigured,
    /// One setting publishes rows, the flag leaves them out.
    #[error(
        "--existing-rows skip contradicts postgres.snapshot = \"initial\", which publishes \
         existing rows"
    )]
    SkipAndSnapshot,
    /// Created by a newer version of postrider.
    #[error(
        "schema postrider has version {found}; this version of postrider knows only versions up to \
         {known}"
    )]
    NewerSchema {
        /// In the database.
        found: i32,
        /// In this program.
        known: i32,
    },
    /// The role lacks rights. All that are missing, so that they can be granted at once.
    #[error("role {role} lacks {}", rights::rights(.lacking))]
    Privileges {
        /// The role.
        role: String,
        /// What it lacks.
        lacking: Vec<Lacking>,
    },
    /// It is unknown whether the role may replicate: all replication connections are in use.
    #[error("the server has no replication connection to spare: {reason}")]
    WalSendersBusy {
        /// The server's words.
        reason: String,
    },
    /// No replication connection could be opened, for another reason.
    #[error("no replication connection can be opened: {0}")]
    Replication(ReplicationError),
    /// Another session holds the lock that such commands wait for while schema `postrider` is not
    /// complete.
    #[error("nothing was changed: {0}")]
    CommandLock(String),
    /// Postgres refused a statement.
    #[error(transparent)]
    Statement(#[from] StatementError),
}

impl MigrateError {
    pub(super) fn statement(
        what: impl Into<Cow<'static, str>>,
        error: &tokio_postgres::Error,
    ) -> Self {
        StatementError::new(what, error).into()
    }

    pub(super) fn of_command_lock(error: CommandLockError) -> Self {
        match error {
            CommandLockError::Statement(error) => Self::statement("begin a session", &error),
            CommandLockError::Connect(error) => error.into(),
            held @ CommandLockError::Held { .. } => Self::CommandLock(held.to_string()),
        }
    }

    /// Whether the configuration is wrong, as the database shows.
    pub(crate) fn is_in_settings(&self) -> bool {
        matches!(self, Self::Check(finding) if finding.in_settings)
    }

    /// False if the same command may work a little later.
    pub(crate) fn needs_operator(&self) -> bool {
        match self {
            Self::Connect(error) => error.fix().is_some(),
            Self::Statement(error) => !error.may_pass(),
            Self::WalSendersBusy { .. }
            | Self::CommandLock(_)
            | Self::NotPromised { .. }
            | Self::StillConfigured { .. } => false,
            // 53: out of a resource; 57P: shutdown. A pooler answers 08P01, and would do so again.
            Self::Replication(ReplicationError::Server(error)) => {
                !error.code.starts_with("53") && !error.code.starts_with("57P")
            }
            Self::Replication(_) => false,
            _ => true,
        }
    }

    /// How to fix it, in one sentence.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Connect(error) => {
                let wait = "make sure that the server is up and accepts connections, then run \
                    migrate again";
                error.fix().unwrap_or(wait).to_owned()
            }
            Self::Check(finding) => finding.fix.clone(),
            Self::SlotBeforePublication { slot, .. } => format!("{RECOVER}; {}", give_up(slot)),
            Self::NotPromised { promised, .. } if promised.is_empty() => {
                "correct postgres.slot: no table is promised for this one".to_owned()
            }
            Self::NotPromised { promised, .. } => {
                format!("name one of the promised tables: {}", promised.join(", "))
            }
            Self::StillConfigured { .. } => {
                "remove it from postgres.tables first: a relay with this \
                configuration would promise it again"
                    .to_owned()
            }
            Self::TableNotMade { .. } => {
                "create the table yourself, or remove postgres.preset and \
                postgres.columns from the configuration, and run migrate again"
                    .to_owned()
            }
            Self::SlotRead { slot } => {
                let slot = slot.replace('\'', "''");
                format!(
                    "let `postrider run` publish what the slot has, stop it, drop the slot (SELECT \
                     pg_drop_replication_slot('{slot}')), run DELETE FROM postrider.progress WHERE \
                     slot = '{slot}', then `postrider migrate --existing-rows publish`: this \
                     publishes all rows of the tables, including those that were already published"
                )
            }
            Self::MessagesConfigured => "let the relay publish what was written, set \
                postgres.messages = false, then run `postrider migrate --withdraw messages` again"
                .to_owned(),
            Self::SkipAndSnapshot => "omit the flag, or set postgres.snapshot to never".to_owned(),
            Self::NewerSchema { .. } => "run the newer version of postrider".to_owned(),
            Self::Privileges { lacking, .. } => {
                format!("run as an administrator: {}", rights::remedy(lacking))
            }
            Self::WalSendersBusy { .. } => "end a replication client that is not needed \
                (pg_stat_replication), or raise max_wal_senders and restart the server, then run \
                migrate again"
                .to_owned(),
            Self::Replication(_) => "name the server itself in postgres.url, not a pooler, and \
                allow the role in pg_hba.conf"
                .to_owned(),
            Self::CommandLock(_) => CommandLockError::fix_of_held("the command"),
            Self::Statement(error) => statement_fix(error),
        }
    }
}

fn statement_fix(error: &StatementError) -> String {
    if error.is_any_of(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
        return "run migrate as a role that is allowed to do it (docs/grants.sql)".to_owned();
    }
    if error.is_any_of(&[SqlState::CONFIGURATION_LIMIT_EXCEEDED]) {
        return "drop a slot that nobody uses (pg_replication_slots), or raise \
            max_replication_slots and restart the server"
            .to_owned();
    }
    if error.is_any_of(&[SqlState::LOCK_NOT_AVAILABLE]) {
        return "a long transaction uses the table: wait until it has ended, then run migrate again"
            .to_owned();
    }
    error.fix("migrate")
}
