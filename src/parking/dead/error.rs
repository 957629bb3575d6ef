//! Why a command on the side table stopped, and how to fix it.

use tokio_postgres::error::SqlState;

use crate::postgres::{ConnectError, StatementError};
use crate::rights::NoAccess;
use postrider_core::delivery::Broken;

/// Why a command on the side table stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// Postgres can't be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The side table can't be used.
    #[error(transparent)]
    NoAccess(#[from] NoAccess),
    /// Postgres refused a statement.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// The destination can't be used.
    #[error("can't publish: {0}")]
    Sink(Broken),
}

impl CommandError {
    pub(crate) fn statement(what: &'static str, error: &tokio_postgres::Error) -> Self {
        StatementError::new(what, error).into()
    }

    /// False if the same command may work a little later.
    pub(crate) fn needs_operator(&self) -> bool {
        match self {
            Self::Connect(error) => error.fix().is_some(),
            Self::Statement(error) => !error.may_pass(),
            Self::NoAccess(_) | Self::Sink(_) => true,
        }
    }

    /// What to do about it, in one sentence.
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Connect(error) => {
                let wait = "make sure that the server is up and accepts connections, then run the \
                            command again";
                error.fix().unwrap_or(wait).to_owned()
            }
            Self::NoAccess(lacking) => lacking.fix.clone(),
            Self::Statement(error) => statement_fix(error),
            Self::Sink(Broken { fix: Some(fix), .. }) => fix.clone(),
            Self::Sink(_) => "correct the configuration of the destination".to_owned(),
        }
    }
}

fn statement_fix(error: &StatementError) -> String {
    if error.is_any_of(&[SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME]) {
        return "run `postrider migrate`".to_owned();
    }
    if error.is_any_of(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
        return "run the command as a role that is allowed to read schema postrider: it needs GRANT \
                USAGE ON SCHEMA postrider and GRANT SELECT ON postrider.undelivered"
            .to_owned();
    }
    error.fix("the same command")
}
