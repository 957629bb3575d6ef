//! What is there already, and whether it can stay. Everything is looked at before anything is
//! made, so that a refusal leaves the database as it was.

use tokio_postgres::Client;

use super::error::MigrateError;
use super::outbox_table;
use super::{Scope, statements};
use crate::checks::table::{self, TableProblem};
use crate::config::{OutboxTable, PostgresConfig, TableName};

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
    scope: Scope,
) -> Result<Found, MigrateError> {
    server(client).await?;
    let slot = match (slot(client, &wanted.slot).await, scope) {
        (Err(MigrateError::SlotLost { .. }), Scope::WithoutSlot) => true,
        (slot, _) => slot?,
    };
    if !slot && scope == Scope::All {
        refuse_forgotten(client, &wanted.slot).await?;
    }
    let publication = publication(client, &wanted.publication).await?;
    if slot && publication.is_none() && scope == Scope::All {
        return Err(MigrateError::SlotBeforePublication {
            slot: wanted.slot.clone(),
            publication: wanted.publication.clone(),
        });
    }
    if publication.as_ref().is_some_and(|publication| !publication.inserts) {
        return Err(MigrateError::NoInserts { publication: wanted.publication.clone() });
    }
    let via_root = publication.map(|publication| publication.via_root);
    let mut tables_missing = Vec::new();
    for table in &wanted.tables {
        if !exists(client, wanted, table, via_root).await? {
            outbox_table::can_be_made(table)?;
            tables_missing.push(table.name.clone());
        }
    }
    Ok(Found { slot, publication: via_root.is_some(), tables_missing })
}

/// Whether the table is there; an error if it can't stay as it is.
async fn exists(
    client: &Client,
    wanted: &PostgresConfig,
    table: &OutboxTable,
    via_root: Option<bool>,
) -> Result<bool, MigrateError> {
    let failed = |error| MigrateError::statement(format!("look up {}", table.name), &error);
    let publication = &wanted.publication;
    let found = table::look_up(client, publication, &table.name).await.map_err(failed)?;
    let Some(found) = found else { return Ok(false) };
    found.judge(wanted, table, via_root)?;
    if !found.is_published() {
        let ancestor = table::published_ancestor(client, publication, &found);
        if let Some(ancestor) = ancestor.await.map_err(failed)? {
            let (publication, table) = (publication.clone(), table.name.clone());
            return Err(TableProblem::AncestorName { publication, table, ancestor }.into());
        }
    }
    Ok(true)
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
                    current_database()::text, two_phase
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
        _ if row.get(4) => Err(MigrateError::SlotTwoPhase { slot }),
        _ if wal_status.as_deref() == Some("lost") => Err(MigrateError::SlotLost { slot }),
        _ => Ok(true),
    }
}

/// A slot whose progress is stored must not be made anew as if there had been none.
async fn refuse_forgotten(client: &Client, slot: &str) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("look for the slot's progress", &error);
    // By the catalogs: to_regclass fails without the right to look into the schema.
    let exists = "SELECT EXISTS (SELECT FROM pg_tables
         WHERE schemaname = 'postrider' AND tablename = 'progress')";
    if !client.query_one(exists, &[]).await.map_err(failed)?.get::<_, bool>(0) {
        return Ok(());
    }
    let sql = format!("SELECT {}", statements::has_progress(slot));
    match client.query_one(&sql, &[]).await.map_err(failed)?.get(0) {
        true => Err(MigrateError::SlotGone { slot: slot.to_owned() }),
        false => Ok(()),
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
}
