//! Why a migration stopped, and the way out. Nothing is half done: each step is a transaction.

use std::borrow::Cow;

use tokio_postgres::error::SqlState;

use super::session::TurnError;
use crate::checks::Finding;
use crate::config::TableName;
use crate::postgres::{ConnectError, StatementError};
use crate::progress::{RECOVER, give_up};
use crate::replication::ReplicationError;
use crate::rights::{self, Lacking};

/// Why a migration stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    /// There is no connection.
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
        /// What is.
        promised: Vec<String>,
    },
    /// A promise is to be withdrawn that the next start would make again.
    #[error("table {table} is to be withdrawn, and is in postgres.tables")]
    StillConfigured {
        /// Its name.
        table: TableName,
    },
    /// Decoding fails on WAL that is older than its publication.
    #[error(
        "slot {slot} exists but publication {publication} does not; WAL between the slot's position \
         and a publication made now can't be decoded"
    )]
    SlotBeforePublication {
        /// The slot's name.
        slot: String,
        /// The publication's name.
        publication: String,
    },
    /// A table that is missing, under names that the default table can't have.
    #[error(
        "table {table} does not exist, and can't be made with the column names of the configuration: {reason}"
    )]
    TableNotMade {
        /// Its name.
        table: TableName,
        /// Why not.
        reason: String,
    },
    /// Publishing old rows takes a slot that nobody has read.
    #[error(
        "slot {slot} has been read already: rows that are older can't be published first any more"
    )]
    SlotRead {
        /// Its name.
        slot: String,
    },
    /// The next relay would promise it again.
    #[error("postgres.messages is true: the relay publishes events without a table")]
    MessagesConfigured,
    /// One setting publishes rows, the flag leaves them out.
    #[error(
        "--existing-rows skip contradicts postgres.snapshot = \"initial\", which publishes the rows that \
         are there"
    )]
    SkipAndSnapshot,
    /// Made by a newer postrider.
    #[error("schema postrider has version {found}; this postrider knows up to {known}")]
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
    /// Whether the role may replicate can't be found out: all connections for it are in use.
    #[error("the server has no replication connection to spare: {reason}")]
    WalSendersBusy {
        /// The server's words.
        reason: String,
    },
    /// There is no replication connection, for another reason.
    #[error("no replication connection can be opened: {0}")]
    Replication(ReplicationError),
    /// Somebody holds the lock by which such commands take turns where schema `postrider` is not complete.
    #[error("nothing was changed: {0}")]
    Turn(String),
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

    pub(super) fn of_turn(error: TurnError) -> Self {
        match error {
            TurnError::Statement(error) => Self::statement("begin a session", &error),
            TurnError::Connect(error) => error.into(),
            held @ TurnError::Held { .. } => Self::Turn(held.to_string()),
        }
    }

    /// False if the same command may work a little later.
    pub(crate) fn needs_operator(&self) -> bool {
        match self {
            Self::Connect(error) => error.fix().is_some(),
            Self::Statement(error) => !error.may_pass(),
            Self::WalSendersBusy { .. }
            | Self::Turn(_)
            | Self::NotPromised { .. }
            | Self::StillConfigured { .. } => false,
            // 53 out of something, 57P shutdown. A pooler says 08P01, and will say it again.
            Self::Replication(ReplicationError::Server(error)) => {
                !error.code.starts_with("53") && !error.code.starts_with("57P")
            }
            Self::Replication(_) => false,
            _ => true,
        }
    }

    /// The way out, one sentence.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Connect(error) => {
                let wait =
                    "see that the server is up and takes connections, then run migrate again";
                error.fix().unwrap_or(wait).to_owned()
            }
            Self::Check(finding) => finding.fix.clone(),
            Self::SlotBeforePublication { slot, .. } => format!("{RECOVER}; {}", give_up(slot)),
            Self::NotPromised { promised, .. } if promised.is_empty() => {
                "correct postgres.slot: no table is promised for this one".to_owned()
            }
            Self::NotPromised { promised, .. } => {
                format!("name one of those that are: {}", promised.join(", "))
            }
            Self::StillConfigured { .. } => {
                "take it out of postgres.tables first: a relay with this \
                configuration would promise it again"
                    .to_owned()
            }
            Self::TableNotMade { .. } => "create the table yourself, or take postgres.preset and \
                postgres.columns out of the configuration, and run migrate again"
                .to_owned(),
            Self::SlotRead { slot } => {
                let slot = slot.replace('\'', "''");
                format!(
                    "let `postrider run` publish what the slot has, stop it, drop the slot (SELECT \
                     pg_drop_replication_slot('{slot}')), run DELETE FROM postrider.progress WHERE slot \
                     = '{slot}', then `postrider migrate --existing-rows publish`: all rows of the tables \
                     are published, also those that were published before"
                )
            }
            Self::MessagesConfigured => "let the relay publish what was written, set \
                postgres.messages = false, then run `postrider migrate --withdraw messages` again"
                .to_owned(),
            Self::SkipAndSnapshot => {
                "leave out the flag, or set postgres.snapshot to never".to_owned()
            }
            Self::NewerSchema { .. } => "run the newer postrider".to_owned(),
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
            Self::Turn(_) => TurnError::fix_of_held("the command"),
            Self::Statement(error) => statement_fix(error),
        }
    }
}

fn statement_fix(error: &StatementError) -> String {
    if error.is_any_of(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
        return "run migrate as a role that is allowed to do it (docs/grants.sql)".to_owned();
    }
    if error.is_any_of(&[SqlState::CONFIGURATION_LIMIT_EXCEEDED]) {
        return "drop a slot that nobody uses (pg_replication_slots), or raise max_replication_slots and \
            restart the server"
            .to_owned();
    }
    if error.is_any_of(&[SqlState::LOCK_NOT_AVAILABLE]) {
        return "a long transaction uses the table: wait for its end, then run migrate again"
            .to_owned();
    }
    error.fix("migrate")
}
