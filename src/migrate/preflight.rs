//! What is there already, and whether it can stay. Everything is looked at before anything is
//! made, so that a refusal leaves the database as it was.

use tokio_postgres::Client;

use super::error::MigrateError;
use crate::config::{PostgresConfig, TableName};

const SERVER_VERSION_MIN: i32 = 140_000;

/// What the database has of what is wanted.
pub(super) struct Found {
    pub(super) slot: bool,
    pub(super) publication: bool,
    /// Wanted tables that do not exist.
    pub(super) tables_missing: Vec<TableName>,
}

struct Publication {
    inserts: bool,
    via_root: bool,
}

pub(super) async fn preflight(
    client: &Client,
    wanted: &PostgresConfig,
) -> Result<Found, MigrateError> {
    server(client).await?;
    let slot = slot(client, &wanted.slot).await?;
    let publication = publication(client, &wanted.publication).await?;
    if slot && publication.is_none() {
        return Err(MigrateError::SlotBeforePublication {
            slot: wanted.slot.clone(),
            publication: wanted.publication.clone(),
        });
    }
    if publication.as_ref().is_some_and(|publication| !publication.inserts) {
        return Err(MigrateError::NoInserts { publication: wanted.publication.clone() });
    }
    let mut tables_missing = Vec::new();
    for name in &wanted.tables {
        match table(client, name).await? {
            None => tables_missing.push(name.clone()),
            Some(Kind::Ordinary) => {}
            Some(Kind::Partitioned) => {
                if publication.as_ref().is_some_and(|publication| !publication.via_root) {
                    let publication = wanted.publication.clone();
                    return Err(MigrateError::PartitionNames { publication, table: name.clone() });
                }
            }
        }
    }
    Ok(Found { slot, publication: publication.is_some(), tables_missing })
}

async fn server(client: &Client) -> Result<(), MigrateError> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                    pg_is_in_recovery(), current_setting('wal_level')",
            &[],
        )
        .await
        .map_err(|error| MigrateError::statement("show its settings", &error))?;
    check_server(row.get(0), row.get(1), row.get(2), row.get(3))
}

fn check_server(
    version_num: i32,
    version: String,
    standby: bool,
    wal_level: String,
) -> Result<(), MigrateError> {
    if version_num < SERVER_VERSION_MIN {
        return Err(MigrateError::ServerTooOld { version });
    }
    if standby {
        return Err(MigrateError::Standby);
    }
    match wal_level.as_str() {
        "logical" => Ok(()),
        _ => Err(MigrateError::WalLevel { wal_level }),
    }
}

/// Slots belong to the server, not to a database: their names are shared by all of them.
async fn slot(client: &Client, name: &str) -> Result<bool, MigrateError> {
    let row = client
        .query_opt(
            "SELECT coalesce(plugin::text, slot_type), database::text, wal_status,
                    current_database()::text
               FROM pg_replication_slots WHERE slot_name = $1",
            &[&name],
        )
        .await
        .map_err(|error| MigrateError::statement("list its slots", &error))?;
    let Some(row) = row else { return Ok(false) };
    let (found, database): (String, Option<String>) = (row.get(0), row.get(1));
    let (wal_status, here): (Option<String>, String) = (row.get(2), row.get(3));
    let slot = name.to_owned();
    if found != "pgoutput" {
        return Err(MigrateError::SlotKind { slot, found });
    }
    match database {
        Some(database) if database != here => {
            Err(MigrateError::SlotDatabase { slot, database, here })
        }
        _ if wal_status.as_deref() == Some("lost") => Err(MigrateError::SlotLost { slot }),
        _ => Ok(true),
    }
}

async fn publication(client: &Client, name: &str) -> Result<Option<Publication>, MigrateError> {
    let statement = "SELECT pubinsert, pubviaroot FROM pg_publication WHERE pubname = $1";
    let row = client
        .query_opt(statement, &[&name])
        .await
        .map_err(|error| MigrateError::statement("show its publications", &error))?;
    Ok(row.map(|row| Publication { inserts: row.get(0), via_root: row.get(1) }))
}

enum Kind {
    Ordinary,
    Partitioned,
}

async fn table(client: &Client, table: &TableName) -> Result<Option<Kind>, MigrateError> {
    let row = client
        .query_opt(
            "SELECT relkind::text, relpersistence::text,
                    ARRAY(SELECT attname::text FROM pg_attribute
                           WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped)
               FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
              WHERE nspname = $1 AND relname = $2",
            &[&table.schema, &table.name],
        )
        .await
        .map_err(|error| MigrateError::statement(format!("look up {table}"), &error))?;
    let Some(row) = row else { return Ok(None) };
    check_table(table, row.get(0), row.get(1), &row.get::<_, Vec<String>>(2)).map(Some)
}

fn check_table(
    table: &TableName,
    kind: &str,
    persistence: &str,
    columns: &[String],
) -> Result<Kind, MigrateError> {
    let not_a_table = |found| Err(MigrateError::NotATable { table: table.clone(), found });
    let kind = match kind {
        "r" => Kind::Ordinary,
        "p" => Kind::Partitioned,
        "v" | "m" => return not_a_table("a view"),
        "f" => return not_a_table("a foreign table"),
        _ => return not_a_table("not a table"),
    };
    match persistence {
        "p" => {}
        "u" => return not_a_table("UNLOGGED, so its rows are not in the WAL"),
        _ => return not_a_table("temporary, so its rows are not in the WAL"),
    }
    let required = ["topic", "payload"];
    let missing: Vec<&str> =
        required.into_iter().filter(|name| !columns.iter().any(|column| column == name)).collect();
    match missing.is_empty() {
        true => Ok(kind),
        false => Err(MigrateError::MissingColumns {
            table: table.clone(),
            missing: missing.join(" and no column "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cant_do_it_is_told_apart() {
        #[track_caller]
        fn check(version_num: i32, standby: bool, wal_level: &str, expect: Option<&str>) {
            let result = check_server(version_num, "x".to_owned(), standby, wal_level.to_owned());
            let message = result.err().map(|error| format!("{error}; {}", error.fix()));
            match (&message, expect) {
                (Some(message), Some(part)) => assert!(message.contains(part), "{message}"),
                (None, None) => {}
                _ => panic!("{message:?} instead of {expect:?}"),
            }
        }
        check(140_000, false, "logical", None);
        check(180_001, false, "logical", None);
        check(130_012, false, "logical", Some("14 or newer"));
        check(150_000, true, "logical", Some("primary"));
        check(150_000, false, "replica", Some("ALTER SYSTEM SET wal_level = logical"));
    }

    #[test]
    fn an_existing_table_must_be_one_and_have_topic_and_payload() {
        #[track_caller]
        fn check(kind: &str, persistence: &str, columns: &[&str], expect: Option<&str>) {
            let table = "orders.outbox".parse().unwrap();
            let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
            let message = check_table(&table, kind, persistence, &columns)
                .err()
                .map(|error| error.to_string());
            match (&message, expect) {
                (Some(message), Some(part)) => assert!(message.contains(part), "{message}"),
                (None, None) => {}
                _ => panic!("{message:?} instead of {expect:?}"),
            }
        }
        check("r", "p", &["payload", "x", "topic"], None);
        check("p", "p", &["payload", "topic"], None);
        check("r", "p", &["payload"], Some("no column topic"));
        check("r", "p", &[], Some("no column topic and no column payload"));
        check("v", "p", &["payload", "topic"], Some("a view"));
        check("r", "u", &["payload", "topic"], Some("UNLOGGED"));
    }
}
