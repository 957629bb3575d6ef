//! Why a migration stopped, and the way out. Nothing is half done: each step is a transaction.

use tokio_postgres::error::SqlState;

use super::privileges::{self, Lacking};
use super::session::TurnError;
use crate::checks::table::TableProblem;
use crate::config::TableName;
use crate::config::quote_identifier;
use crate::parking::store::NoAccess;
use crate::postgres::{ConnectError, SET_WAL_LEVEL, describe};
use crate::progress::{RECOVER, Unsent, give_up};
use crate::replication::ReplicationError;

/// Why a migration stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// pgoutput's binary mode and logical messages need 14.
    #[error("the server is Postgres {version}; postrider needs 14 or newer")]
    ServerTooOld {
        /// As the server says it.
        version: String,
    },
    /// A standby.
    #[error("the server is a standby, where nothing can be created")]
    Standby,
    /// No logical decoding.
    #[error("the server has wal_level = {wal_level}; reading an outbox from the WAL needs logical")]
    WalLevel {
        /// The setting.
        wal_level: String,
    },
    /// A slot of that name, made for something else.
    #[error("slot {slot} is not one that postrider can read: {found} instead of pgoutput")]
    SlotKind {
        /// Its name.
        slot: String,
        /// Its plugin or kind.
        found: String,
    },
    /// A slot of that name in another database.
    #[error("slot {slot} belongs to database {database}, not to {here}")]
    SlotDatabase {
        /// Its name.
        slot: String,
        /// Where it is.
        database: String,
        /// Where we are.
        here: String,
    },
    /// The server has removed WAL that the slot needs.
    #[error("slot {slot} is lost: the server has removed WAL that it had not delivered")]
    SlotLost {
        /// Its name.
        slot: String,
    },
    /// A slot that is gone, of which progress is stored.
    #[error(
        "slot {slot} was dropped: progress of it is stored, and a slot made now would leave out what \
         was written since"
    )]
    SlotGone {
        /// Its name.
        slot: String,
    },
    /// The slot may lack rows of its tables.
    #[error("slot {slot} may lack rows: {}", .lapses.join("; "))]
    Lapsed {
        /// Its name.
        slot: String,
        /// What happened, a sentence for each table.
        lapses: Vec<String>,
    },
    /// Tables are promised for the slot that its relay would not see.
    #[error(transparent)]
    Unsent(#[from] Unsent),
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
    /// The publication leaves inserts out.
    #[error("publication {publication} does not publish inserts")]
    NoInserts {
        /// Its name.
        publication: String,
    },
    /// An existing table that can't be published as it is.
    #[error(transparent)]
    Table(#[from] TableProblem),
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
    /// A slot that has rows before they commit.
    #[error("slot {slot} was made for two-phase commit: it has rows before they commit")]
    SlotTwoPhase {
        /// Its name.
        slot: String,
    },
    /// Made by a newer postrider.
    #[error("schema postrider has version {found}; this postrider knows up to {known}")]
    NewerSchema {
        /// In the database.
        found: i32,
        /// In this program.
        known: i32,
    },
    /// Of another version, in a command that does not change that.
    #[error(transparent)]
    Schema(#[from] NoAccess),
    /// The role lacks rights. All that are missing, so that they can be granted at once.
    #[error("role {role} lacks {}", privileges::rights(.lacking))]
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
    /// The server said no.
    #[error("Postgres refused to {what}: {reason}")]
    Statement {
        /// What was to be done, or the statement.
        what: String,
        /// The server's words.
        reason: String,
        /// Its code, if the server answered at all.
        code: Option<SqlState>,
    },
}

impl MigrateError {
    pub(super) fn statement(what: impl Into<String>, error: &tokio_postgres::Error) -> Self {
        let code = error.code().cloned();
        Self::Statement { what: what.into(), reason: describe(error), code }
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
            Self::Statement { code, .. } => !may_pass(code.as_ref()),
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
            Self::ServerTooOld { .. } => "upgrade the server".to_owned(),
            Self::Standby => "point postgres.url at the primary".to_owned(),
            Self::WalLevel { .. } => SET_WAL_LEVEL.to_owned(),
            Self::SlotKind { .. } | Self::SlotDatabase { .. } | Self::SlotTwoPhase { .. } => {
                "choose another name for postgres.slot".to_owned()
            }
            Self::SlotLost { slot }
            | Self::SlotBeforePublication { slot, .. }
            | Self::Lapsed { slot, .. }
            | Self::SlotGone { slot } => format!("{RECOVER}; {}", give_up(slot)),
            Self::Unsent(unsent) => unsent.fix(),
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
            Self::NoInserts { publication } => format!(
                "run ALTER PUBLICATION {} SET (publish = 'insert'), or choose another name for \
                 postgres.publication",
                quote_identifier(publication)
            ),
            Self::Table(problem) => problem.fix(),
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
            Self::Schema(wrong) => wrong.fix.clone(),
            Self::Privileges { lacking, .. } => {
                format!("run as an administrator: {}", privileges::remedy(lacking))
            }
            Self::WalSendersBusy { .. } => "end a replication client that is not needed \
                (pg_stat_replication), or raise max_wal_senders and restart the server, then run \
                migrate again"
                .to_owned(),
            Self::Replication(_) => "name the server itself in postgres.url, not a pooler, and \
                allow the role in pg_hba.conf"
                .to_owned(),
            Self::Turn(_) => TurnError::fix_of_held("the command"),
            Self::Statement { code, .. } => statement_fix(code.as_ref()).to_owned(),
        }
    }
}

/// 08 connection, 40 rollback, 57P shutdown, 55P03 a lock not granted; no code: no server.
pub(crate) fn may_pass(code: Option<&SqlState>) -> bool {
    let passing = ["08", "40", "57P", "55P03"];
    code.is_none_or(|code| passing.iter().any(|prefix| code.code().starts_with(prefix)))
}

fn statement_fix(code: Option<&SqlState>) -> &'static str {
    match code {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "run migrate as a role that may do it (docs/grants.sql)"
        }
        Some(code) if *code == SqlState::CONFIGURATION_LIMIT_EXCEEDED => {
            "drop a slot that nobody uses (pg_replication_slots), or raise max_replication_slots and \
             restart the server"
        }
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => {
            "a long transaction uses the table: wait for its end, then run migrate again"
        }
        code if may_pass(code) => "wait until the server is up and calm, then run migrate again",
        _ => "change what the message names, then run migrate again",
    }
}
