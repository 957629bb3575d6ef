//! Why a command on the side table stopped, and the way out.

use tokio_postgres::error::SqlState;

use crate::parking::store::NoAccess;
use crate::postgres::{ConnectError, describe};
use crate::setup::migrate::may_pass;
use postrider_core::delivery::Broken;

/// Why a command on the side table stopped.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The side table can't be used.
    #[error(transparent)]
    NoAccess(#[from] NoAccess),
    /// The server said no.
    #[error("Postgres refused to {what}: {reason}")]
    Statement {
        /// What was to be done.
        what: &'static str,
        /// The server's words.
        reason: String,
        /// Its code, if the server answered at all.
        code: Option<SqlState>,
    },
    /// The destination can't be used.
    #[error("can't publish: {0}")]
    Sink(Broken),
}

impl CommandError {
    pub(crate) fn statement(what: &'static str, error: &tokio_postgres::Error) -> Self {
        let code = error.code().cloned();
        Self::Statement { what, reason: describe(error), code }
    }

    fn is_missing(&self) -> bool {
        let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
        matches!(self, Self::Statement { code: Some(code), .. } if missing.contains(code))
    }

    /// False if the same command may work a little later.
    pub fn needs_operator(&self) -> bool {
        match self {
            Self::Connect(error) => error.fix().is_some(),
            Self::Statement { code, .. } => !may_pass(code.as_ref()),
            Self::NoAccess(_) | Self::Sink(_) => true,
        }
    }

    /// The way out, one sentence.
    pub fn fix(&self) -> String {
        let fix = match self {
            Self::Connect(error) => error
                .fix()
                .unwrap_or("see that the server is up and takes connections, then try again"),
            Self::NoAccess(lacking) => &lacking.fix,
            Self::Statement { .. } if self.is_missing() => "run `postrider migrate`",
            Self::Statement { code, .. } => statement_fix(code.as_ref()),
            Self::Sink(Broken { fix: Some(fix), .. }) => fix,
            Self::Sink(_) => "correct the configuration of the destination",
        };
        fix.to_owned()
    }
}

fn statement_fix(code: Option<&SqlState>) -> &'static str {
    match code {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "run it as a role that may read schema postrider: GRANT USAGE ON SCHEMA postrider and \
             GRANT SELECT ON postrider.undelivered"
        }
        code if may_pass(code) => {
            "wait until the server is up and calm, then run the same command again"
        }
        _ => "change what the message names, then run the same command again",
    }
}
