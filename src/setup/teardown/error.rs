//! Why a teardown stopped, and how to fix it.

use std::borrow::Cow;

use tokio_postgres::error::SqlState;

use crate::checks::Finding;
use crate::postgres::{ConnectError, StatementError, describe};
use crate::rights::{Lacking, remedy, rights};
use crate::setup::migrate::CommandLockError;

/// Why a teardown stopped. Only `Statement` and `Newcomer` can occur after the slot was dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TeardownError {
    /// No connection could be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Somebody reads the slot.
    #[error("slot {slot} is in use{by}; nothing was dropped")]
    SlotInUse {
        /// Its name.
        slot: String,
        /// ` by PID 4711 (postrider orders)`, if it is known.
        by: String,
    },
    /// A slot of that name that can't be ours.
    #[error("{}; nothing was dropped", .0.what)]
    NotOurs(Finding),
    /// Another relay has begun to use what was to be dropped.
    #[error(
        "slot {newcomer} began to use schema postrider in the meantime; only this relay's slot was \
         dropped"
    )]
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
    /// Another session holds the lock that such commands wait for while schema `postrider` is not
    /// complete.
    #[error("nothing was dropped: {0}")]
    CommandLock(String),
    /// Postgres refused a statement.
    #[error(transparent)]
    Statement(#[from] StatementError),
}

impl TeardownError {
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

    /// The slot may have been taken after it was checked.
    pub(super) fn of_slot(slot: &str, error: &tokio_postgres::Error) -> Self {
        if error.code() == Some(&SqlState::OBJECT_IN_USE) {
            Self::SlotInUse { slot: slot.to_owned(), by: format!(" ({})", describe(error)) }
        } else {
            Self::statement(format!("drop slot {slot}"), error)
        }
    }

    /// False if the same command may work a little later.
    pub(crate) fn needs_operator(&self) -> bool {
        match self {
            Self::Connect(error) => error.fix().is_some(),
            Self::Statement(error) => !error.may_pass(),
            Self::CommandLock(_) => false,
            _ => true,
        }
    }

    /// How to fix it, in one sentence.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Connect(error) => {
                let wait = "make sure that the server is up and accepts connections, then run \
                    teardown again";
                error.fix().unwrap_or(wait).to_owned()
            }
            Self::SlotInUse { .. } => {
                "stop the relay that reads it, then run teardown again".to_owned()
            }
            Self::Newcomer { .. } => {
                "run teardown again, which keeps what that slot needs".to_owned()
            }
            Self::NotOurs(_) => {
                "name one of postrider's slots in postgres.slot, and the database it belongs \
                to in postgres.url"
                    .to_owned()
            }
            Self::Privileges { lacking, .. } => format!(
                "run teardown as the role that ran migrate, or as an administrator: {}",
                remedy(lacking)
            ),
            Self::CommandLock(_) => CommandLockError::fix_of_held("teardown"),
            Self::Statement(error) => statement_fix(error),
        }
    }
}

fn statement_fix(error: &StatementError) -> String {
    if error.is_any_of(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
        return "run teardown as a role that is allowed to replicate: ALTER ROLE … REPLICATION \
            (on Amazon RDS: GRANT rds_replication TO …)"
            .to_owned();
    }
    if error.is_any_of(&[SqlState::DEPENDENT_OBJECTS_STILL_EXIST]) {
        return "first drop the objects of others that depend on it, then run teardown again"
            .to_owned();
    }
    error.fix("teardown")
}
