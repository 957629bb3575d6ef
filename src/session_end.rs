//! Why a session ends, and who must do something about it.

use crate::postgres::{ConnectError, OpenError};
use crate::progress::{DestinationError, Gap, Unsent};
use crate::replication::{ReplicationError, ServerError};
use postrider_core::ack::UnknownTicket;
use postrider_core::delivery::Broken;
use postrider_core::pgoutput::DecodeError;
use postrider_core::row::LayoutError;
use postrider_core::transaction::TransactionError;

/// The relay can't go on without an operator. Nothing was confirmed that is not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fatal {
    what: String,
    fix: String,
    is_passing: bool,
}

impl Fatal {
    pub(crate) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Fatal { what: what.into(), fix: fix.into(), is_passing: false }
    }

    /// A sink that can't be made.
    pub(crate) fn of_sink(broken: &Broken) -> Self {
        let fix = broken.fix.as_deref().unwrap_or("correct the configuration of the destination");
        Fatal::new(&broken.text, fix)
    }

    /// The same of something that may pass by itself: a server that is down, say.
    pub(crate) fn passing(self) -> Self {
        Fatal { is_passing: true, ..self }
    }

    /// Whether it may pass by itself, so that trying again later is all it takes.
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// What to do about it.
    pub fn fix(&self) -> &str {
        &self.fix
    }
}

/// Why a session ended.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// A stop was requested.
    Shutdown,
    /// Something broke that recovers on its own: wait a little and restart from the stored position.
    Restart(Restart),
    /// An operator is needed.
    Fatal(Fatal),
    /// Rows of the tables have to be published first.
    BackfillFirst,
}

/// A session that will be followed by another.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) reason: RestartReason,
    /// What happened, in a sentence.
    pub(crate) text: String,
}

/// Why a session is followed by another: the label of `postrider_restarts_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RestartReason {
    /// Postgres, or the link to it, failed.
    Postgres,
    /// Postgres is shutting down.
    PostgresShutdown,
    /// The destination, or the link to it, failed.
    Broker,
    /// Records were refused in a batch, so it is unknown which of them were at fault.
    Refused,
    /// The destination answers, but the oldest event is not acknowledged.
    Stuck,
    /// Another relay, or another program, has the slot.
    SlotInUse,
    /// A row has a type whose binary form is unknown.
    NeedsText,
    /// The keys that wait for parked events have to be read again.
    Keys,
    /// An event in flight needs a new timestamp.
    Stamps,
    /// Another instance publishes the rows of the tables.
    BackfillElsewhere,
    /// A table changed while its rows were being published.
    BackfillLapsed,
}

impl RestartReason {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 11] = [
        Self::Postgres,
        Self::PostgresShutdown,
        Self::Broker,
        Self::Refused,
        Self::Stuck,
        Self::SlotInUse,
        Self::NeedsText,
        Self::Keys,
        Self::Stamps,
        Self::BackfillElsewhere,
        Self::BackfillLapsed,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::PostgresShutdown => "postgres_shutdown",
            Self::Broker => "broker",
            Self::Refused => "refused",
            Self::Stuck => "stuck",
            Self::SlotInUse => "slot_in_use",
            Self::NeedsText => "needs_text",
            Self::Keys => "keys",
            Self::Stamps => "stamps",
            Self::BackfillElsewhere => "backfill_elsewhere",
            Self::BackfillLapsed => "backfill_lapsed",
        }
    }
}

impl SessionEnd {
    pub(crate) fn restart(reason: RestartReason, text: impl Into<String>) -> Self {
        SessionEnd::Restart(Restart { reason, text: text.into() })
    }

    pub(crate) fn fatal(what: impl Into<String>, fix: impl Into<String>) -> Self {
        SessionEnd::Fatal(Fatal::new(what, fix))
    }

    /// What happened, for people.
    pub(crate) fn text(&self) -> &str {
        match self {
            SessionEnd::Shutdown => "a stop was requested",
            SessionEnd::Restart(restart) => &restart.text,
            SessionEnd::Fatal(fatal) => &fatal.what,
            SessionEnd::BackfillFirst => "rows of the tables have to be published first",
        }
    }

    /// Whether all that is wrong is that somebody else has the slot.
    pub(crate) fn is_slot_in_use(&self) -> bool {
        matches!(self, SessionEnd::Restart(restart) if restart.reason == RestartReason::SlotInUse)
    }

    /// The one of two that says more: what is purged because of a refusal can be reported before it.
    pub(crate) fn or_rather(self, other: SessionEnd) -> SessionEnd {
        let rather = match (&self, &other) {
            (SessionEnd::Fatal(_), _) => false,
            (_, SessionEnd::Fatal(_)) => true,
            (SessionEnd::Restart(first), SessionEnd::Restart(second)) => {
                first.reason == RestartReason::Broker && second.reason == RestartReason::Refused
            }
            _ => false,
        };
        if rather { other } else { self }
    }

    /// The walsender has said nothing for longer than it lets us be silent.
    pub(crate) fn silent(silence: std::time::Duration) -> Self {
        let error = ReplicationError::Silent(silence);
        let fix = "if it decodes one very large transaction meanwhile, ALTER ROLE … SET \
            wal_sender_timeout lets it take longer";
        SessionEnd::restart(RestartReason::Postgres, format!("{error}; {fix}"))
    }

    /// Rows of a table could not be read.
    pub(crate) fn reading_rows(table: &str, error: tokio_postgres::Error) -> Self {
        if !error.code().is_some_and(|code| is_unconvertible(code.code())) {
            return error.into();
        }
        SessionEnd::fatal(
            format!(
                "Postgres can't send the rows of {table}: {}",
                crate::postgres::describe(&error)
            ),
            "a row holds text that the database's encoding can't turn into UTF-8: correct what writes \
             such rows, delete or correct this one in its table, then run this command again, which \
             goes on where it stopped",
        )
    }

    /// The stream broke the rules. Reading it again would break them again.
    pub(crate) fn violation(error: impl std::fmt::Display) -> Self {
        SessionEnd::fatal(
            format!("the replication stream can't be understood: {error}"),
            "check that the server is a supported Postgres (14 or newer) and report this as a bug; \
             nothing was confirmed beyond it",
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

/// A query on the ordinary connection failed: the connection, or a server in trouble.
impl From<tokio_postgres::Error> for SessionEnd {
    fn from(error: tokio_postgres::Error) -> Self {
        SessionEnd::restart(RestartReason::Postgres, crate::postgres::describe(&error))
    }
}

/// Whether the text of a row can't be turned into UTF-8: character_not_in_repertoire,
/// untranslatable_character. It would be the same the next time.
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
                match crate::postgres::fix_of_tls(&error.to_string()) {
                    Some(fix) => SessionEnd::fatal(error.to_string(), fix),
                    None => SessionEnd::restart(RestartReason::Postgres, error.to_string()),
                }
            }
            ReplicationError::NoChannelBinding => {
                SessionEnd::fatal(error.to_string(), crate::postgres::CHANNEL_BINDING)
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

/// By SQLSTATE ("Appendix A. PostgreSQL Error Codes"). What is not known here mends by itself.
fn from_server(error: &ServerError) -> SessionEnd {
    let fix = match error.code.as_str() {
        "55006" => return SessionEnd::restart(RestartReason::SlotInUse, error.to_string()),
        "28P01" | "28000" => {
            "set the right user and password in postgres.url, and allow the role replication \
             connections to the database in pg_hba.conf"
        }
        "3D000" => "create the database, or name an existing one in postgres.url",
        "42704" if error.message.contains("publication") => {
            "WAL from before a publication can't be read through it: run `postrider recover`, which \
             makes the publication if it is missing, makes a new slot, and publishes from the tables \
             what may be missing"
        }
        "42704" => {
            "run `postrider migrate`, which creates the slot and the publication; if they existed \
             before, find out who dropped them first: events in between may be missing"
        }
        "42501" => {
            "allow the role to replicate: ALTER ROLE … REPLICATION (on Amazon RDS: \
             GRANT rds_replication TO …)"
        }
        code if is_unconvertible(code) => {
            "a row holds text that the database's encoding can't turn into UTF-8: correct what writes \
             such rows, delete or correct this one in its table, drop the slot (SELECT \
             pg_drop_replication_slot('…')), then run `postrider recover`, which publishes the others \
             from the tables (events without a table that were not published yet go with the slot)"
        }
        "55000" | "58P01" => {
            "the slot has lost WAL that was not published: run `postrider recover`, which makes a \
             new slot and publishes from the tables what may be missing"
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
                "set postgres.columns, and names of columns that were changed, back until these rows \
                 are read, then map the new column"
            }
            LayoutError::Missing { .. } | LayoutError::WrongType { .. } => {
                "give the table the columns of the outbox contract, or say in postgres.columns what it \
                 calls them (rows written in the meantime are read under present column names, if \
                 names are all that was changed), or take it out of postgres.tables"
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
    fn a_refusal_says_more_than_what_it_broke() {
        let check = |first: SessionEnd, second: SessionEnd, wanted: RestartReason| {
            let SessionEnd::Restart(restart) = first.or_rather(second) else {
                panic!("no restart")
            };
            assert_eq!(restart.reason, wanted);
        };
        let stop = |reason| SessionEnd::restart(reason, "");
        check(stop(RestartReason::Broker), stop(RestartReason::Refused), RestartReason::Refused);
        check(stop(RestartReason::Refused), stop(RestartReason::Broker), RestartReason::Refused);
        check(stop(RestartReason::Postgres), stop(RestartReason::Refused), RestartReason::Postgres);
        assert!(matches!(
            stop(RestartReason::Broker).or_rather(SessionEnd::fatal("", "")),
            SessionEnd::Fatal(_)
        ));
    }

    #[test]
    fn only_a_stream_that_ran_can_break_the_rules() {
        let what = || "a frame of length 1".to_owned();
        let stop = SessionEnd::from(ReplicationError::NotStarted(what()));
        assert!(
            matches!(stop, SessionEnd::Restart(ref restart) if restart.reason == RestartReason::Postgres),
            "{stop:?}"
        );
        let stop = SessionEnd::from(ReplicationError::Protocol(what()));
        assert!(matches!(stop, SessionEnd::Fatal(_)), "{stop:?}");
    }
}
