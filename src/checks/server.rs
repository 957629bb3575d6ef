//! The server: its version, whether it accepts writes, and whether it can decode its log.

use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::{Finding, Findings};
use crate::postgres::SET_WAL_LEVEL;
use crate::session_end::SessionEnd;

/// Binary values and logical messages need this version.
const SERVER_VERSION_MIN: i32 = 140_000;

/// What a server is, and how it is set up.
pub(crate) struct ServerFacts {
    version_num: i32,
    version: String,
    is_standby: bool,
    wal_level: String,
    pub(crate) wal_sender_timeout: Duration,
}

impl ServerFacts {
    pub(crate) async fn look_up(client: &Client) -> Result<Self, Error> {
        const SQL: &str = "select current_setting('server_version_num')::int, \
                    current_setting('server_version'), pg_is_in_recovery(), \
                    current_setting('wal_level'), setting::bigint \
               from pg_settings where name = 'wal_sender_timeout'";
        let row = client.query_one(SQL, &[]).await?;
        let timeout_ms: i64 = row.try_get(4)?;
        Ok(ServerFacts {
            version_num: row.try_get(0)?,
            version: row.try_get(1)?,
            is_standby: row.try_get(2)?,
            wal_level: row.try_get(3)?,
            wal_sender_timeout: Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)),
        })
    }

    /// What is wrong with it.
    pub(crate) fn judge(&self) -> Findings {
        let mut findings = Findings::default();
        findings.note(self.check_version());
        findings.note(self.check_primary());
        findings.note(self.check_wal_level());
        findings
    }

    fn check_version(&self) -> Result<(), Finding> {
        if self.version_num < SERVER_VERSION_MIN {
            Err(Finding::new(
                format!("the server is Postgres {}", self.version),
                "postrider needs 14 or newer",
                "upgrade the server, or use another one",
            ))
        } else {
            Ok(())
        }
    }

    /// A standby may be promoted, or its name moved to the primary.
    pub(crate) fn check_primary(&self) -> Result<(), Finding> {
        if self.is_standby {
            Err(Finding::new(
                "the server is a standby",
                "the slot is on the primary, and nothing can be created here",
                "name the primary in postgres.url, or all hosts with \
             target_session_attrs=read-write, which finds it",
            )
            .passing())
        } else {
            Ok(())
        }
    }

    fn check_wal_level(&self) -> Result<(), Finding> {
        match self.wal_level.as_str() {
            "logical" => Ok(()),
            wal_level => Err(Finding::new(
                format!("the server has wal_level = {wal_level}"),
                "reading the outbox from the WAL requires wal_level = logical",
                SET_WAL_LEVEL,
            )),
        }
    }
}

/// Whether the server can be used.
pub(crate) async fn check_server(client: &Client) -> Result<ServerFacts, SessionEnd> {
    let server = ServerFacts::look_up(client).await?;
    match server.judge().first() {
        None => Ok(server),
        Some(finding) => Err(finding.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_be_used_is_described_with_the_way_out() {
        #[track_caller]
        fn check(version_num: i32, is_standby: bool, wal_level: &str, expect: &[&str]) {
            let facts = ServerFacts {
                version_num,
                version: "x".to_owned(),
                is_standby,
                wal_level: wal_level.to_owned(),
                wal_sender_timeout: Duration::ZERO,
            };
            let found: Vec<String> =
                facts.judge().0.iter().map(|it| format!("{it}; {}", it.fix)).collect();
            assert_eq!(found.len(), expect.len(), "{found:?}");
            for (found, part) in found.iter().zip(expect) {
                assert!(found.contains(part), "{found}");
            }
        }
        check(140_000, false, "logical", &[]);
        check(180_001, false, "logical", &[]);
        check(130_012, false, "logical", &["14 or newer"]);
        check(150_000, true, "logical", &["primary"]);
        check(150_000, false, "replica", &["ALTER SYSTEM SET wal_level = logical"]);
        check(130_012, true, "replica", &["14 or newer", "primary", "SET wal_level = logical"]);
    }
}
