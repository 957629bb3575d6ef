//! A statement that Postgres refused, and what to do about it: the same for every command.

use std::borrow::Cow;

use tokio_postgres::error::SqlState;

use super::describe;

/// A statement that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Postgres refused to {what}: {reason}")]
pub(crate) struct StatementError {
    /// What was to be done, or the statement.
    what: Cow<'static, str>,
    /// The server's message.
    reason: String,
    /// Its code, if the server answered at all.
    code: Option<SqlState>,
}

impl StatementError {
    pub(crate) fn new(what: impl Into<Cow<'static, str>>, error: &tokio_postgres::Error) -> Self {
        StatementError { what: what.into(), reason: describe(error), code: error.code().cloned() }
    }

    /// The same with the reason for which the connection closed, if the server gave none.
    pub(crate) fn because(self, cause: Option<&tokio_postgres::Error>) -> Self {
        match (&self.code, cause) {
            (None, Some(cause)) => StatementError { reason: describe(cause), ..self },
            _ => self,
        }
    }

    /// Whether the server gave one of these codes.
    pub(crate) fn is_any_of(&self, codes: &[SqlState]) -> bool {
        self.code.as_ref().is_some_and(|code| codes.contains(code))
    }

    /// Whether the same statement may succeed a little later.
    pub(crate) fn may_pass(&self) -> bool {
        // 08 connection, 40 rollback, 57P shutdown, 55P03 a lock not granted; no code: no server.
        // <https://www.postgresql.org/docs/current/errcodes-appendix.html>
        let passing = ["08", "40", "57P", "55P03"];
        let is_passing = |code: &SqlState| passing.iter().any(|it| code.code().starts_with(it));
        self.code.as_ref().is_none_or(is_passing)
    }

    /// The fix, if the command has no better one. `command`: what to run again.
    pub(crate) fn fix(&self, command: &str) -> String {
        if self.may_pass() {
            format!("wait until the server is available, then run {command} again")
        } else {
            format!("fix the problem described above, then run {command} again")
        }
    }
}
