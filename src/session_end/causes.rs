//! What each error means for a session: whether it recovers on its own, or an operator has to act.
//! This is the only place that decides it.

use std::time::Duration;

use super::{RestartReason, SessionEnd};
use crate::postgres::{CHANNEL_BINDING, ConnectError, OpenError, describe, tls_fix};
use crate::progress::{DestinationError, Gap, Unsent};
use crate::replication::{ReplicationError, ServerError};
use postrider_core::ack::UnknownTicket;
use postrider_core::delivery::Broken;
use postrider_core::pgoutput::DecodeError;
use postrider_core::row::LayoutError;
use postrider_core::transaction::TransactionError;

impl SessionEnd {
    /// The walsender has sent nothing for longer than it allows the relay to be silent.
    pub(crate) fn silent(silence: Duration) -> Self {
        let error = ReplicationError::Silent(silence);
        let fix = "if it is decoding one very large transaction, ALTER ROLE … SET \
            wal_sender_timeout gives it more time";
        SessionEnd::restart(RestartReason::Postgres, format!("{error}; {fix}"))
    }

    /// Rows of a table could not be read.
    pub(crate) fn reading_rows(table: &str, error: tokio_postgres::Error) -> Self {
        if !error.code().is_some_and(|code| is_unconvertible(code.code())) {
            return error.into();
        }
        SessionEnd::fatal(
            format!("Postgres can't send the rows of {table}: {}", describe(&error)),
            "a row holds text that the database's encoding can't convert to UTF-8: correct what \
             writes such rows, delete or correct this one in its table, then run this command \
             again; it continues where it stopped",
        )
    }
}

impl From<ConnectError> for SessionEnd {
    fn from(error: ConnectError) -> Self {
        match error.fix() {
            Some(fix) => SessionEnd::fatal(error.to_string(), fix),
            None => SessionEnd::restart(RestartReason::Postgres, error.to_string()),
        }
    }
}

/// A query on the ordinary connection failed: the connection broke, or the server is in trouble.
impl From<tokio_postgres::Error> for SessionEnd {
    fn from(error: tokio_postgres::Error) -> Self {
        SessionEnd::restart(RestartReason::Postgres, describe(&error))
    }
}

/// Whether the text of a row can't be converted to UTF-8: character_not_in_repertoire,
/// untranslatable_character. It would fail again.
fn is_unconvertible(code: &str) -> bool {
    matches!(code, "22021" | "22P05")
}

impl From<ReplicationError> for SessionEnd {
    fn from(error: ReplicationError) -> Self {
        match &error {
            ReplicationError::Server(server) => from_server(server),
            ReplicationError::PasswordMissing => SessionEnd::fatal(
                error.to_string(),
                "set the password in postgres.url or PGPASSWORD",
            ),
            ReplicationError::AuthenticationUnsupported(_) => SessionEnd::fatal(
                error.to_string(),
                "use scram-sha-256, md5 or trust for this role in the server's pg_hba.conf",
            ),
            ReplicationError::NoTls | ReplicationError::Handshake(_) => {
                match tls_fix(&error.to_string()) {
                    Some(fix) => SessionEnd::fatal(error.to_string(), fix),
                    None => SessionEnd::restart(RestartReason::Postgres, error.to_string()),
                }
            }
            ReplicationError::NoChannelBinding => {
                SessionEnd::fatal(error.to_string(), CHANNEL_BINDING)
            }
            ReplicationError::Protocol(_) => SessionEnd::violation(error),
            ReplicationError::Connect { source, .. } => {
                SessionEnd::restart(RestartReason::Postgres, format!("{error}: {source}"))
            }
            ReplicationError::Io(source) => {
                SessionEnd::restart(RestartReason::Postgres, format!("{error}: {source}"))
            }
            ReplicationError::NotStarted(_)
            | ReplicationError::Ended
            | ReplicationError::Silent(_) => {
                SessionEnd::restart(RestartReason::Postgres, error.to_string())
            }
        }
    }
}

/// By SQLSTATE (<https://www.postgresql.org/docs/current/errcodes-appendix.html>). Unknown errors
/// are taken to be temporary.
fn from_server(error: &ServerError) -> SessionEnd {
    let fix = match error.code.as_str() {
        "55006" => return SessionEnd::restart(RestartReason::SlotInUse, error.to_string()),
        "28P01" | "28000" => {
            "set the right user and password in postgres.url, and allow the role replication \
             connections to the database in pg_hba.conf"
        }
        "3D000" => "create the database, or name an existing one in postgres.url",
        "42704" if error.message.contains("publication") => {
            "WAL from before a publication can't be read through it: run `postrider recover`, \
             which creates the publication if it is missing, recreates the slot, and publishes the \
             tables' rows that may be missing"
        }
        "42704" => {
            "run `postrider migrate`, which creates the slot and the publication; if they existed \
             before, first find out who dropped them: events in between may be missing"
        }
        "42501" => {
            "allow the role to replicate: ALTER ROLE … REPLICATION (on Amazon RDS: \
             GRANT rds_replication TO …)"
        }
        code if is_unconvertible(code) => {
            "a row holds text that the database's encoding can't convert to UTF-8: correct what \
             writes such rows, delete or correct this one in its table, drop the slot (SELECT \
             pg_drop_replication_slot('…')), then run `postrider recover`, which publishes the \
             other rows from the tables (events without a table that were not published yet are \
             lost with the slot)"
        }
        "55000" | "58P01" => {
            "the slot has lost WAL that was not published: run `postrider recover`, which \
             recreates the slot and publishes the tables' rows that may be missing"
        }
        _ => return SessionEnd::restart(RestartReason::Postgres, error.to_string()),
    };
    let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    SessionEnd::fatal(format!("Postgres refuses to stream: {error}{hint}"), fix)
}

impl From<DecodeError> for SessionEnd {
    fn from(error: DecodeError) -> Self {
        SessionEnd::violation(error)
    }
}

impl From<TransactionError> for SessionEnd {
    fn from(error: TransactionError) -> Self {
        SessionEnd::violation(error)
    }
}

impl From<LayoutError> for SessionEnd {
    fn from(error: LayoutError) -> Self {
        let fix = match &error {
            LayoutError::Younger { .. } => {
                "set postgres.columns back, and give renamed columns their old names, until these \
                 rows are read; then map the new column"
            }
            LayoutError::NotLikeDebezium { .. } => {
                "name other columns in [debezium], or set postgres.preset = \"none\" and map the \
                 table's columns in postgres.columns"
            }
            LayoutError::Missing { .. } | LayoutError::WrongType { .. } => {
                "give the table the columns of the outbox contract, or name its columns in \
                 postgres.columns (if only names were changed, rows written in the meantime are \
                 read under the present names), or take it out of postgres.tables"
            }
        };
        SessionEnd::fatal(error.to_string(), fix)
    }
}

impl From<OpenError> for SessionEnd {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Connect(error) => error.into(),
            OpenError::Query(error) => error.into(),
            OpenError::Ended(text) => SessionEnd::restart(RestartReason::Postgres, text),
        }
    }
}

impl From<Gap> for SessionEnd {
    fn from(gap: Gap) -> Self {
        SessionEnd::fatal(gap.to_string(), gap.fix())
    }
}

impl From<Unsent> for SessionEnd {
    fn from(unsent: Unsent) -> Self {
        SessionEnd::fatal(unsent.to_string(), unsent.fix())
    }
}

impl From<DestinationError> for SessionEnd {
    fn from(error: DestinationError) -> Self {
        match error.fix() {
            Some(fix) => SessionEnd::fatal(error.to_string(), fix),
            None => SessionEnd::restart(RestartReason::Postgres, error.to_string()),
        }
    }
}

impl From<UnknownTicket> for SessionEnd {
    fn from(error: UnknownTicket) -> Self {
        SessionEnd::restart(RestartReason::Broker, error.to_string())
    }
}

impl From<Broken> for SessionEnd {
    fn from(broken: Broken) -> Self {
        let reason = if broken.refused { RestartReason::Refused } else { RestartReason::Broker };
        match broken.fix {
            Some(fix) => SessionEnd::fatal(broken.text, fix),
            None => SessionEnd::restart(reason, broken.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_that_ran_can_break_the_rules() {
        let what = || "a frame of length 1".to_owned();
        let end = SessionEnd::from(ReplicationError::NotStarted(what()));
        assert!(
            matches!(end, SessionEnd::Restart(ref restart) if restart.reason == RestartReason::Postgres),
            "{end:?}"
        );
        let end = SessionEnd::from(ReplicationError::Protocol(what()));
        assert!(matches!(end, SessionEnd::Fatal(_)), "{end:?}");
    }
}
