//! What already exists, and whether it can stay as it is. Everything is checked before anything is
//! created, so that a refusal leaves the database unchanged.

use tokio_postgres::Client;

use super::error::MigrateError;
use super::outbox_table;
use super::{Scope, statements};
use crate::checks::table::{self, TableProblem};
use crate::checks::{Finding, Findings, Publication, ServerFacts, Slot, SlotState};
use crate::config::{OutboxTable, PostgresConfig, TableName};
use crate::progress::Gap;

/// Which of the wanted objects exist.
pub(super) struct Found {
    pub(super) slot: bool,
    pub(super) publication: bool,
    /// Wanted tables that do not exist.
    pub(super) tables_missing: Vec<TableName>,
}

pub(super) async fn preflight(
    client: &Client,
    wanted: &PostgresConfig,
    scope: Scope,
) -> Result<Found, MigrateError> {
    let failed = |error| MigrateError::statement("show its settings", &error);
    let server = ServerFacts::look_up(client).await.map_err(failed)?;
    if let Some(finding) = server.judge().first() {
        return Err(finding.into());
    }
    let slot = slot(client, &wanted.slot, scope).await?;
    if !slot && scope == Scope::All {
        refuse_missing_slot(client, &wanted.slot).await?;
    }
    let failed = |error| MigrateError::statement("show its publications", &error);
    let publication = Publication::look_up(client, &wanted.publication).await.map_err(failed)?;
    if slot && publication.is_none() && scope == Scope::All {
        return Err(MigrateError::SlotBeforePublication {
            slot: wanted.slot.clone(),
            publication: wanted.publication.clone(),
        });
    }
    if let Some(publication) = &publication {
        publication.check_inserts(&wanted.publication)?;
    }
    let via_root = publication.map(|publication| publication.via_root);
    let mut tables_missing = Vec::new();
    let mut in_settings = Findings::default();
    for table in &wanted.tables {
        let checked = match exists(client, wanted, table, via_root).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                tables_missing.push(table.name.clone());
                outbox_table::can_be_made(table)
            }
            Err(error) => Err(error),
        };
        match checked {
            // Errors of the configuration are reported together.
            Err(MigrateError::Check(finding)) if finding.in_settings => {
                in_settings.note::<()>(Err(finding));
            }
            checked => checked?,
        }
    }
    if let Some(finding) = in_settings.first() {
        return Err(finding.into());
    }
    Ok(Found { slot, publication: via_root.is_some(), tables_missing })
}

/// Whether the table exists; an error if it can't stay as it is.
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
    found.judge(wanted, table, via_root).map_err(Finding::from)?;
    if !found.is_published() {
        let ancestor = table::published_ancestor(client, publication, &found);
        if let Some(ancestor) = ancestor.await.map_err(failed)? {
            let (publication, table) = (publication.clone(), table.name.clone());
            let problem = TableProblem::AncestorName { publication, table, ancestor };
            return Err(Finding::from(problem).into());
        }
    }
    Ok(true)
}

/// Whether the slot exists. With [`Scope::WithoutSlot`], one that is lost counts as existing.
async fn slot(client: &Client, name: &str, scope: Scope) -> Result<bool, MigrateError> {
    let failed = |error| MigrateError::statement("list its slots", &error);
    let Some(slot) = Slot::look_up(client, name).await.map_err(failed)? else { return Ok(false) };
    match (slot.judge(name)?, scope) {
        (SlotState::Lost(by), Scope::All) => {
            Err(Finding::from(Gap::Lost { slot: name.to_owned(), by }).into())
        }
        (SlotState::Lost(_), Scope::WithoutSlot) | (SlotState::Whole, _) => Ok(true),
    }
}

/// A slot whose progress is stored must not be created as if it were new.
async fn refuse_missing_slot(client: &Client, slot: &str) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("look for the slot's progress", &error);
    // By the catalogs: to_regclass fails without the right to use the schema.
    let exists = "SELECT EXISTS (SELECT FROM pg_tables
         WHERE schemaname = 'postrider' AND tablename = 'progress')";
    if !client.query_one(exists, &[]).await.map_err(failed)?.get::<_, bool>(0) {
        return Ok(());
    }
    let sql = format!("SELECT {}", statements::has_progress(slot));
    if client.query_one(&sql, &[]).await.map_err(failed)?.get(0) {
        Err(Finding::from(Gap::Missing { slot: slot.to_owned() }).into())
    } else {
        Ok(())
    }
}
