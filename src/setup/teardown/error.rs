//! Why a teardown stopped, and the way out.

use tokio_postgres::error::SqlState;

use crate::postgres::{ConnectError, describe};
use crate::setup::migrate::{Lacking, TurnError, may_pass, remedy, rights};

/// Why a teardown stopped. Only `Statement` and `Newcomer` may come after the slot was dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TeardownError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Somebody reads the slot.
    #[error("slot {slot} is in use{by}; nothing was dropped")]
    SlotInUse {
        /// Its name.
        slot: String,
        /// ` by PID 4711 (postrider orders)`, as far as it is known.
        by: String,
    },
    /// A slot of that name, made for something else.
    #[error("slot {slot} is not postrider's: {found} instead of pgoutput; nothing was dropped")]
    SlotKind {
        /// Its name.
        slot: String,
        /// Its plugin or kind.
        found: String,
    },
    /// A slot of that name in another database.
    #[error("slot {slot} belongs to database {database}, not to {here}; nothing was dropped")]
    SlotDatabase {
        /// Its name.
        slot: String,
        /// Where it is.
        database: String,
        /// Where we are.
        here: String,
    },
    /// Another relay has begun to use what was to be dropped.
    #[error("slot {newcomer} began to use schema postrider meanwhile; only the slot was dropped")]
    Newcomer {
        /// The name of its slot.
        newcomer: String,
    },
    /// The role lacks rights. All that are missing.
    #[error("role {role} lacks {}; nothing was dropped", rights(.lacking))]
    Privileges {
        /// The role.
        role: String,
        /// What it lacks.
        lacking: Vec<Lacking>,
    },
    /// Somebody holds the lock by which such commands take turns where schema `postrider` is not complete.
    #[error("nothing was dropped: {0}")]
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

impl TeardownError {
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

    /// The slot may have been taken after it was looked at.
    pub(super) fn of_slot(slot: &str, error: &tokio_postgres::Error) -> Self {
        match error.code() == Some(&SqlState::OBJECT_IN_USE) {
            true => {
                Self::SlotInUse { slot: slot.to_owned(), by: format!(" ({})", describe(error)) }
            }
            false => Self::statement(format!("drop slot {slot}"), error),
        }
    }

    /// False if the same command may work a little later.
    pub(crate) fn needs_operator(&self) -> bool {
        match self {
            Self::Connect(error) => error.fix().is_some(),
            Self::Statement { code, .. } => !may_pass(code.as_ref()),
            Self::Turn(_) => false,
            _ => true,
        }
    }

    /// The way out, one sentence.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Connect(error) => {
                let wait = "see that the server is up and takes connections, then try again";
                error.fix().unwrap_or(wait).to_owned()
            }
            Self::SlotInUse { .. } => {
                "stop the relay that reads it, then run teardown again".to_owned()
            }
            Self::Newcomer { .. } => {
                "run teardown again, which leaves that slot what it needs".to_owned()
            }
            Self::SlotKind { .. } => "name postrider's own slot in postgres.slot".to_owned(),
            Self::SlotDatabase { .. } => {
                "name that database in postgres.url, or this one's slot in \
                postgres.slot"
                    .to_owned()
            }
            Self::Privileges { lacking, .. } => format!(
                "run teardown as the role that ran migrate, or as an administrator: {}",
                remedy(lacking)
            ),
            Self::Turn(_) => TurnError::fix_of_held("teardown"),
            Self::Statement { code, .. } => statement_fix(code.as_ref()).to_owned(),
        }
    }
}

fn statement_fix(code: Option<&SqlState>) -> &'static str {
    match code {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "run teardown as a role that may replicate: ALTER ROLE … REPLICATION (on Amazon RDS: \
             GRANT rds_replication TO …)"
        }
        Some(code) if *code == SqlState::DEPENDENT_OBJECTS_STILL_EXIST => {
            "drop what others have built on it first, then run teardown again"
        }
        code if may_pass(code) => "wait until the server is up and calm, then run teardown again",
        _ => "change what the message names, then run teardown again",
    }
}
