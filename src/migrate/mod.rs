//! `postrider migrate`: the schema `postrider`, the outbox tables, the publication, the slot, in
//! this order, because each needs the one before.
//!
//! The publication must exist before the slot: pgoutput looks it up in the catalogs *as of the WAL
//! record it decodes*, and fails on records from before its creation. For the same reason a table
//! joins a publication only under a lock that waits for its writers: rows that a transaction had
//! written before would never come, although it commits after.

mod create;
mod error;
mod preflight;
mod report;

use std::time::Duration;

use tokio_postgres::{Client, Transaction};

pub use error::MigrateError;
pub use report::{Change, Item, Report};

use crate::config::{Config, PostgresConfig, TableName, quote_identifier};
use crate::postgres::{self, Connected};
use preflight::{Found, preflight};

/// Held by one migration per database at a time; the number is arbitrary ("postride" in ASCII).
const ADVISORY_LOCK: i64 = 0x706f_7374_7269_6465;

/// While a lock on an outbox is waited for, its writers queue up behind it.
const LOCK_TIMEOUT: &str = "10s";

/// How long something may be waited for without a word.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// A numbered file of `migrations/`, applied once per database.
struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

/// In order; never changed once released.
const MIGRATIONS: [Migration; 1] = [Migration {
    version: 1,
    name: "schema",
    sql: include_str!("../../migrations/0001_schema.sql"),
}];

/// Makes what is missing. Running it again changes nothing; several at once wait for each other.
pub async fn migrate(config: &Config) -> Result<Report, MigrateError> {
    let Connected { mut client, guard: mut connection, .. } =
        postgres::connect(&config.postgres.connection).await?;
    match steps(&mut client, &config.postgres).await {
        Err(MigrateError::Statement { what, code: None, reason }) if client.is_closed() => {
            // The client only knows that the connection is closed; its task knows why.
            let cause = connection.ended().await;
            let reason = cause.map_or(reason, |error| postgres::describe(&error));
            Err(MigrateError::Statement { what, code: None, reason })
        }
        result => result,
    }
}

async fn steps(client: &mut Client, wanted: &PostgresConfig) -> Result<Report, MigrateError> {
    let mut report = Report::new(&wanted.tables);
    begin_session(client).await?;
    let found = preflight(client, wanted).await?;
    own_schema(client, &mut report).await?;
    tables_and_publication(client, wanted, &found, &mut report).await?;
    slot(client, &wanted.slot, found.slot, &mut report).await?;
    Ok(report)
}

async fn begin_session(client: &Client) -> Result<(), MigrateError> {
    // Names below are qualified; a search path of the database's own could only mislead them.
    execute(
        client,
        "SET synchronous_commit = on; SET statement_timeout = 0; SET lock_timeout = 0;
         SET search_path = pg_catalog, pg_temp",
    )
    .await?;
    let locked = client.query_one("SELECT pg_advisory_lock($1)", &[&ADVISORY_LOCK]);
    patiently(locked, "waiting for another `postrider migrate` on this database to end")
        .await
        .map_err(|error| MigrateError::statement("take the advisory lock", &error))?;
    Ok(())
}

async fn own_schema(client: &mut Client, report: &mut Report) -> Result<(), MigrateError> {
    let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
    let before = schema_version(client).await?;
    if before > known {
        return Err(MigrateError::NewerSchema { found: before, known });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > before) {
        let what = format!("apply migrations/{:04}_{}.sql", migration.version, migration.name);
        let failed = |error| MigrateError::statement(&what, &error);
        let transaction = client.transaction().await.map_err(failed)?;
        transaction.batch_execute(migration.sql).await.map_err(failed)?;
        let note = "INSERT INTO postrider.schema_version (version, name) VALUES ($1, $2)";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
            [&migration.version, &migration.name];
        transaction.execute(note, &values).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
    }
    let change = match before {
        0 => Change::Created,
        before if before < known => Change::Updated,
        _ => Change::Found,
    };
    report.note(change, format!("schema postrider, version {known}"));
    Ok(())
}

async fn schema_version(client: &Client) -> Result<i32, MigrateError> {
    let failed = |error| MigrateError::statement("read postrider.schema_version", &error);
    let exists = "SELECT to_regclass('postrider.schema_version') IS NOT NULL";
    if !client.query_one(exists, &[]).await.map_err(failed)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let highest = "SELECT coalesce(max(version), 0) FROM postrider.schema_version";
    Ok(client.query_one(highest, &[]).await.map_err(failed)?.get(0))
}

/// One transaction: an outbox must not be seen, and written to, before it is published.
async fn tables_and_publication(
    client: &mut Client,
    wanted: &PostgresConfig,
    found: &Found,
    report: &mut Report,
) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("run a transaction", &error);
    let transaction = client.transaction().await.map_err(failed)?;
    for table in &wanted.tables {
        let change = match found.tables_missing.contains(&table.name) {
            true => create::table(&transaction, table).await?,
            false => Change::Found,
        };
        report.note(change, format!("table {}", table.name));
    }
    let change = publish(&transaction, wanted, found).await?;
    transaction.commit().await.map_err(failed)?;
    report.note(change, format!("publication {}", wanted.publication));
    Ok(())
}

async fn publish(
    transaction: &Transaction<'_>,
    wanted: &PostgresConfig,
    found: &Found,
) -> Result<Change, MigrateError> {
    let name = quote_identifier(&wanted.publication);
    let list = |tables: &[&TableName]| {
        let quoted: Vec<String> = tables.iter().map(|table| table.quoted()).collect();
        quoted.join(", ")
    };
    if !found.publication {
        // Without the second option a partitioned outbox would come under its partitions' names.
        let tables = list(&wanted.tables.iter().map(|table| &table.name).collect::<Vec<_>>());
        let options = "publish = 'insert', publish_via_partition_root = true";
        let statement = format!("CREATE PUBLICATION {name} FOR TABLE {tables} WITH ({options})");
        execute(transaction.client(), &statement).await?;
        return Ok(Change::Created);
    }
    let missing = unpublished(transaction, wanted).await?;
    if missing.is_empty() {
        return Ok(Change::Found);
    }
    let tables = list(&missing);
    for statement in [
        format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"),
        format!("LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"),
        format!("ALTER PUBLICATION {name} ADD TABLE {tables}"),
    ] {
        execute(transaction.client(), &statement).await?;
    }
    Ok(Change::Updated)
}

/// The view knows all ways a table can be published: by name, by schema, as one of all.
async fn unpublished<'a>(
    transaction: &Transaction<'_>,
    wanted: &'a PostgresConfig,
) -> Result<Vec<&'a TableName>, MigrateError> {
    let statement = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = $1";
    let rows = transaction
        .query(statement, &[&wanted.publication])
        .await
        .map_err(|error| MigrateError::statement("show its publications", &error))?;
    let published = |table: &&TableName| {
        rows.iter()
            .any(|row| row.get::<_, &str>(0) == table.schema && row.get::<_, &str>(1) == table.name)
    };
    Ok(wanted.tables.iter().map(|table| &table.name).filter(|table| !published(table)).collect())
}

/// Not in a transaction: one that has written can't create a slot.
async fn slot(
    client: &Client,
    name: &str,
    exists: bool,
    report: &mut Report,
) -> Result<(), MigrateError> {
    if exists {
        report.note(Change::Found, format!("slot {name}"));
        return Ok(());
    }
    let statement = "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')";
    let row = patiently(
        client.query_one(statement, &[&name]),
        "waiting for transactions that began before the slot to end \
         (see pg_stat_activity, column xact_start)",
    )
    .await
    .map_err(|error| MigrateError::statement(format!("create the slot {name}"), &error))?;
    report.note(Change::Created, format!("slot {name} at {}", row.get::<_, String>(0)));
    Ok(())
}

async fn execute(client: &Client, statement: &str) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement(format!("run {statement}"), &error);
    client.batch_execute(statement).await.map_err(failed)
}

/// Awaits something that others can delay, and says so if they do.
async fn patiently<T>(work: impl Future<Output = T>, why: &str) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE_MAX) => tracing::warn!("{why}"),
    }
    work.await
}
