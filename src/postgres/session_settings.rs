//! The settings of our sessions, whatever the role's and the database's defaults are. All sessions
//! begin with those of `start_up`; these are added by purpose. A time-out ends what is stuck; an
//! instance that freezes inside a transaction loses its locks before those that wait for them give
//! up.

use tokio_postgres::{Client, Error};

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The side table. What was not flushed is not parked.
    SideTable,
    /// Storing progress. What was not flushed is not stored. A synchronous standby is not waited
    /// for: if it is promoted without the newest position, more is published again, and while it is
    /// unreachable the relay must continue.
    ProgressWriter,
    /// Everything else that this server must not lose.
    Progress,
    /// Deleting old rows. It waits for locks so briefly that sessions that queue after it hardly
    /// notice. A deletion that a crash of the server forgets is repeated, so nobody waits for the
    /// disk. Rows are looked up in the side table one by one: a plan from when it was small, which
    /// reads all of it each time, must not outlive that time. Where it is read anyway, the plan
    /// seems so expensive that the server would compile it, which takes longer than running it.
    Cleaner,
    /// A command that changes the schema. Names are qualified everywhere; a search path of the
    /// database's own could only misdirect them.
    Command,
}

impl Purpose {
    fn settings(self) -> &'static str {
        match self {
            Purpose::SideTable => {
                "SET synchronous_commit = on; SET statement_timeout = '30s'; \
                 SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
                 SET search_path = pg_catalog, pg_temp; \
                 SET application_name = 'postrider undelivered'"
            }
            Purpose::ProgressWriter => {
                "SET synchronous_commit = local; SET statement_timeout = '30s'; \
                 SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
                 SET search_path = pg_catalog, pg_temp; \
                 SET application_name = 'postrider progress'"
            }
            Purpose::Progress => "SET synchronous_commit = local; SET lock_timeout = '10s'",
            Purpose::Cleaner => {
                "SET synchronous_commit = off; SET statement_timeout = '10min'; \
                 SET lock_timeout = '1s'; SET idle_in_transaction_session_timeout = '5s'; \
                 SET default_transaction_isolation = 'read committed'; \
                 SET enable_seqscan = off; SET jit = off; SET row_security = off; \
                 SET search_path = pg_catalog, pg_temp; \
                 SET application_name = 'postrider cleaner'"
            }
            Purpose::Command => COMMAND,
        }
    }

    /// Sets up a session for this purpose.
    pub(crate) async fn begin(self, client: &Client) -> Result<(), Error> {
        client.batch_execute(self.settings()).await
    }
}

/// Also of the script that `migrate --print` writes.
pub(crate) const COMMAND: &str = "SET synchronous_commit = on; SET statement_timeout = 0; \
    SET lock_timeout = 0; SET search_path = pg_catalog, pg_temp";

/// Reads the tables: as long as it takes, and no longer than the connection. A row that a policy
/// hides must be an error, not a row that is left out. Times as text must be those of the log.
pub(crate) const READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; \
    SET LOCAL row_security = off; SET LOCAL search_path = pg_catalog, pg_temp; \
    SET LOCAL DateStyle = 'ISO'; SET LOCAL TimeZone = 'UTC'; SET LOCAL IntervalStyle = 'postgres'; \
    SET LOCAL extra_float_digits = '1'; SET LOCAL bytea_output = 'hex'; \
    SET LOCAL application_name = 'postrider snapshot'";

/// What the text form of values depends on. A row is read from the log or from its table, and its
/// topic, key and headers must be the same whatever the role's and the database's settings are.
pub(crate) const TEXT_FORM: [(&str, &str); 5] = [
    ("DateStyle", "ISO"),
    ("TimeZone", "UTC"),
    ("IntervalStyle", "postgres"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
];

/// Shows that a relay lives: a client that is gone is noticed after about four seconds, whether the
/// server waits for a question or for its answer to arrive. A Unix socket does without. No relay
/// holds the lock exclusively for longer than one statement.
pub(crate) const LIVENESS: &str = "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; \
    SET tcp_keepalives_count = 2; SET tcp_user_timeout = 4000; SET lock_timeout = '1s'";

/// After those of the side table, for a command that a person waits for: large tables take time, and Ctrl-C is at
/// hand. A replay waits for the brokers within its transaction.
pub(crate) const PERSON: &str = "SET statement_timeout = '10min'; SET lock_timeout = '30s'; \
    SET TimeZone = 'UTC'; SET idle_in_transaction_session_timeout = '60s'";

/// After those of progress, for counting rows: a row that a policy hides must be an error, not be missing.
pub(crate) const COUNTING: &str = "SET row_security = off";

/// A standby that probes the slot; its name is what operators see.
pub(crate) const STANDBY: &str = "SET application_name = 'postrider standby'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_tables_have_the_text_form_of_the_log() {
        for (name, value) in TEXT_FORM {
            assert!(READING.contains(&format!("SET LOCAL {name} = '{value}'")), "{name}");
        }
    }
}
