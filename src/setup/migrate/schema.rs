//! Schema `postrider`: its version, and the migrations that lead to it.

use tokio_postgres::Client;

use super::statements;
use super::{Change, MigrateError, Report, is_missing, make};
use crate::checks::Finding;
use crate::schema::{MIGRATIONS, known_version, wrong_version};

/// Creates schema `postrider`, or updates it to this program's version.
pub(super) async fn own_schema(
    client: &mut Client,
    report: &mut Report,
) -> Result<(), MigrateError> {
    let known = known_version();
    let before = schema_version(client).await?;
    if before > known {
        return Err(MigrateError::NewerSchema { found: before, known });
    }
    let mut applied = false;
    for migration in MIGRATIONS {
        let step = statements::migration(migration);
        // Each migration is checked by its own number, as in the printed script.
        if migration.version <= before && !is_missing(client, &step).await? {
            continue;
        }
        let failed = |error| MigrateError::statement(format!("apply {}", step.thing), &error);
        let transaction = client.transaction().await.map_err(failed)?;
        make(transaction.client(), &step).await?;
        transaction.commit().await.map_err(failed)?;
        applied = true;
    }
    let change = match before {
        0 => Change::Created,
        _ if applied => Change::Updated,
        _ => Change::Found,
    };
    report.note(change, format!("schema postrider, version {known}"));
    report.notes.extend(changed_since(client).await?);
    Ok(())
}

/// A command that does not change the schema works with the present version, if it can: relays of
/// that version may be using it.
pub(super) async fn check_version(client: &Client) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("read postrider.schema_version", &error);
    match wrong_version(client).await.map_err(failed)? {
        None => Ok(()),
        Some(wrong) => Err(Finding::new(wrong.text, "", wrong.fix).into()),
    }
}

/// Notes about migrations that differ from those that were applied here.
async fn changed_since(client: &Client) -> Result<Vec<String>, MigrateError> {
    let failed = |error| MigrateError::statement("read postrider.schema_version", &error);
    let sql = "SELECT version, checksum FROM postrider.schema_version WHERE checksum IS NOT NULL";
    let mut notes = Vec::new();
    for row in client.query(sql, &[]).await.map_err(failed)? {
        let (version, checksum): (i32, &str) = (row.get(0), row.get(1));
        let known = MIGRATIONS.iter().find(|migration| migration.version == version);
        if let Some(known) = known.filter(|known| known.checksum() != checksum) {
            notes.push(format!(
                "migration {version} ({}) differs from the one applied to this database: the \
                 schema may lack something; compare it with the schema of a new database",
                known.name
            ));
        }
    }
    Ok(notes)
}

/// The version that the database has; 0 if there is none.
pub(super) async fn schema_version(client: &Client) -> Result<i32, MigrateError> {
    let failed = |error| MigrateError::statement("read postrider.schema_version", &error);
    let exists = "SELECT to_regclass('postrider.schema_version') IS NOT NULL";
    if !client.query_one(exists, &[]).await.map_err(failed)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let highest = "SELECT coalesce(max(version), 0) FROM postrider.schema_version";
    Ok(client.query_one(highest, &[]).await.map_err(failed)?.get(0))
}
