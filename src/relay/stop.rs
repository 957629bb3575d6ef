//! Why a session ends, and who must do something about it.

use crate::backfill::rows::CopyFault;
use crate::catalog::TableProblem;
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
    pub(super) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Fatal { what: what.into(), fix: fix.into(), is_passing: false }
    }

    /// The same of something that may pass by itself: a server that is down, say.
    pub(super) fn passing(self) -> Self {
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
pub(super) enum Stop {
    /// Somebody asked.
    Asked,
    /// Something broke that mends by itself: wait a little and begin anew at the confirmed position.
    Restart(Restart),
    /// An operator is needed.
    Halt(Fatal),
    /// Rows of the tables have to be published first.
    Backfill,
}

/// A session that will be followed by another.
#[derive(Debug)]
pub(super) struct Restart {
    /// The label of the metric.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) text: String,
}

/// The label of restarts because of Postgres or the link to it.
pub(super) const POSTGRES: &str = "postgres";
/// The label of restarts because of the sink or the way to it.
pub(super) const BROKER: &str = "broker";
/// The label of restarts because records were refused in company.
pub(super) const REFUSED: &str = "refused";
/// The label of restarts because of a producer that has stopped to move.
pub(super) const STUCK: &str = "stuck";
/// The label of restarts that only wait for the slot.
pub(super) const SLOT_IN_USE: &str = "slot_in_use";

/// The label of restarts that ask for the values of rows as text.
pub(super) const NEEDS_TEXT: &str = "needs_text";

impl Stop {
    pub(super) fn restart(reason: &'static str, text: impl Into<String>) -> Self {
        Stop::Restart(Restart { reason, text: text.into() })
    }

    pub(super) fn halt(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Stop::Halt(Fatal::new(what, fix))
    }

    /// What happened, for people.
    pub(super) fn text(&self) -> &str {
        match self {
            Stop::Asked => "a stop was asked for",
            Stop::Restart(restart) => &restart.text,
            Stop::Halt(fatal) => &fatal.what,
            Stop::Backfill => "rows of the tables have to be published first",
        }
    }

    /// Whether all that is wrong is that somebody else has the slot.
    pub(super) fn is_slot_in_use(&self) -> bool {
        matches!(self, Stop::Restart(restart) if restart.reason == SLOT_IN_USE)
    }

    /// The one of two that says more: what is purged because of a refusal can be reported before it.
    pub(super) fn or_rather(self, other: Stop) -> Stop {
        let rather = match (&self, &other) {
            (Stop::Halt(_), _) => false,
            (_, Stop::Halt(_)) => true,
            (Stop::Restart(first), Stop::Restart(second)) => {
                first.reason == BROKER && second.reason == REFUSED
            }
            _ => false,
        };
        if rather { other } else { self }
    }

    /// The walsender has said nothing for longer than it lets us be silent.
    pub(super) fn silent(silence: std::time::Duration) -> Self {
        let error = ReplicationError::Silent(silence);
        let fix = "if it decodes one very large transaction meanwhile, ALTER ROLE … SET \
            wal_sender_timeout lets it take longer";
        Stop::restart(POSTGRES, format!("{error}; {fix}"))
    }

    /// Rows of a table could not be read.
    pub(super) fn reading_rows(table: &str, error: tokio_postgres::Error) -> Self {
        if !error.code().is_some_and(|code| is_unconvertible(code.code())) {
            return error.into();
        }
        Stop::halt(
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
    fn violation(error: impl std::fmt::Display) -> Self {
        Stop::halt(
            format!("the replication stream can't be understood: {error}"),
            "check that the server is a supported Postgres (14 or newer) and report this as a bug; \
             nothing was confirmed beyond it",
        )
    }
}

impl From<ConnectError> for Stop {
    fn from(error: ConnectError) -> Self {
        match error.fix() {
            Some(fix) => Stop::halt(error.to_string(), fix),
            None => Stop::restart(POSTGRES, error.to_string()),
        }
    }
}

/// A query on the ordinary connection failed: the connection, or a server in trouble.
impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Stop::restart(POSTGRES, crate::postgres::describe(&error))
    }
}

/// Whether the text of a row can't be turned into UTF-8: character_not_in_repertoire,
/// untranslatable_character. It would be the same the next time.
fn is_unconvertible(code: &str) -> bool {
    matches!(code, "22021" | "22P05")
}

impl From<ReplicationError> for Stop {
    fn from(error: ReplicationError) -> Self {
        match &error {
            ReplicationError::Server(server) => from_server(server),
            ReplicationError::PasswordMissing => {
                Stop::halt(error.to_string(), "set the password in postgres.url or PGPASSWORD")
            }
            ReplicationError::AuthenticationUnsupported(_) => Stop::halt(
                error.to_string(),
                "use scram-sha-256, md5 or trust for this role in the server's pg_hba.conf",
            ),
            ReplicationError::NoTls | ReplicationError::Handshake(_) => {
                match crate::postgres::fix_of_tls(&error.to_string()) {
                    Some(fix) => Stop::halt(error.to_string(), fix),
                    None => Stop::restart(POSTGRES, error.to_string()),
                }
            }
            ReplicationError::NoChannelBinding => {
                Stop::halt(error.to_string(), crate::postgres::CHANNEL_BINDING)
            }
            ReplicationError::Protocol(_) => Stop::violation(error),
            ReplicationError::Connect { source, .. } => {
                Stop::restart(POSTGRES, format!("{error}: {source}"))
            }
            ReplicationError::Io(source) => Stop::restart(POSTGRES, format!("{error}: {source}")),
            ReplicationError::NotStarted(_)
            | ReplicationError::Ended
            | ReplicationError::Silent(_) => Stop::restart(POSTGRES, error.to_string()),
        }
    }
}

/// By SQLSTATE ("Appendix A. PostgreSQL Error Codes"). What is not known here mends by itself.
fn from_server(error: &ServerError) -> Stop {
    let fix = match error.code.as_str() {
        "55006" => return Stop::restart(SLOT_IN_USE, error.to_string()),
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
        _ => return Stop::restart(POSTGRES, error.to_string()),
    };
    let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    Stop::halt(format!("Postgres refuses to stream: {error}{hint}"), fix)
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Stop::violation(error)
    }
}

impl From<TransactionError> for Stop {
    fn from(error: TransactionError) -> Self {
        Stop::violation(error)
    }
}

impl From<TableProblem> for Stop {
    fn from(problem: TableProblem) -> Self {
        Stop::halt(problem.to_string(), problem.fix())
    }
}

impl From<LayoutError> for Stop {
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
        Stop::halt(error.to_string(), fix)
    }
}

impl From<OpenError> for Stop {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Connect(error) => error.into(),
            OpenError::Query(error) => error.into(),
            OpenError::Ended(text) => Stop::restart(POSTGRES, text),
        }
    }
}

impl From<Gap> for Stop {
    fn from(gap: Gap) -> Self {
        Stop::halt(gap.to_string(), gap.fix())
    }
}

impl From<Unsent> for Stop {
    fn from(unsent: Unsent) -> Self {
        Stop::halt(unsent.to_string(), unsent.fix())
    }
}

impl From<DestinationError> for Stop {
    fn from(error: DestinationError) -> Self {
        match error.fix() {
            Some(fix) => Stop::halt(error.to_string(), fix),
            None => Stop::restart(POSTGRES, error.to_string()),
        }
    }
}

impl From<CopyFault> for Stop {
    fn from(fault: CopyFault) -> Self {
        Stop::violation(fault)
    }
}

impl From<UnknownTicket> for Stop {
    fn from(error: UnknownTicket) -> Self {
        Stop::restart(BROKER, error.to_string())
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        let reason = if broken.refused { REFUSED } else { BROKER };
        match broken.fix {
            Some(fix) => Stop::halt(broken.text, fix),
            None => Stop::restart(reason, broken.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_more_than_what_it_broke() {
        let check = |first: Stop, second: Stop, wanted: &str| {
            let Stop::Restart(restart) = first.or_rather(second) else { panic!("no restart") };
            assert_eq!(restart.reason, wanted);
        };
        let stop = |reason| Stop::restart(reason, "");
        check(stop(BROKER), stop(REFUSED), REFUSED);
        check(stop(REFUSED), stop(BROKER), REFUSED);
        check(stop(POSTGRES), stop(REFUSED), POSTGRES);
        assert!(matches!(stop(BROKER).or_rather(Stop::halt("", "")), Stop::Halt(_)));
    }

    #[test]
    fn only_a_stream_that_ran_can_break_the_rules() {
        let what = || "a frame of length 1".to_owned();
        let stop = Stop::from(ReplicationError::NotStarted(what()));
        assert!(
            matches!(stop, Stop::Restart(ref restart) if restart.reason == POSTGRES),
            "{stop:?}"
        );
        let stop = Stop::from(ReplicationError::Protocol(what()));
        assert!(matches!(stop, Stop::Halt(_)), "{stop:?}");
    }
}
