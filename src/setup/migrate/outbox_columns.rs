//! The column names with which `postrider.enqueue` writes each outbox table: those of the
//! configuration.
//!
//! If several relays read a table under different names, those of the first one stay. The
//! application calls the functions, and the migration of another relay must not change what they
//! do; `migrate` prints a note instead. If the slot of the first one is gone, the names are those
//! of the next relay that migrates.

use tokio_postgres::Client;

use super::statements::Step;
use super::{Change, MigrateError, Report, Scope, is_missing, make_if_missing};
use crate::checks::{columns_of, is_of_another, is_of_table};
use crate::config::{OutboxTable, PostgresConfig};
use crate::postgres::quote_literal;
use crate::rights::has_rights;
use postrider_core::row::Column;

/// The rights that are needed to store them.
pub(super) const RIGHTS: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE"];

/// Stores the names of one table, unless they are stored or another relay's stay.
pub(super) fn step(slot: &str, table: &OutboxTable) -> Step {
    let (columns, of_table, of_another) =
        (columns_of(table), is_of_table(table), is_of_another(slot));
    let slot = quote_literal(slot);
    let missing = format!(
        "NOT EXISTS (SELECT FROM postrider.outbox_columns o WHERE {of_table} \
            AND (o.slot = {slot} AND o.columns = {columns} OR {of_another}))"
    );
    let make = format!(
        "INSERT INTO postrider.outbox_columns (outbox, columns, slot) \
         VALUES ({}::regclass, {columns}, {slot}) \
         ON CONFLICT (outbox) DO UPDATE SET columns = excluded.columns, slot = excluded.slot",
        quote_literal(&table.name.quoted())
    );
    Step::new(
        format!("column names of table {} for postrider.enqueue", table.name),
        missing,
        vec![make],
    )
}

/// A condition that holds if another relay's names stay, and are different.
pub(super) fn differ_condition(slot: &str, table: &OutboxTable) -> String {
    format!(
        "EXISTS (SELECT FROM postrider.outbox_columns o WHERE {} AND o.columns <> {} AND {})",
        is_of_table(table),
        columns_of(table),
        is_of_another(slot)
    )
}

/// What people should know if they are.
pub(super) fn differ_note(slot: &str, table: &OutboxTable) -> String {
    let name = &table.name;
    format!(
        "postrider.enqueue writes table {name} with the column names of another relay (column slot \
         of postrider.outbox_columns), which differ from those of slot {slot}: events that it \
         writes may lack what this relay reads. Give both relays the same names, or use INSERT"
    )
}

/// Removes the names of tables that were dropped: another table can get the same OID.
pub(super) fn forget_dropped() -> Step {
    const DROPPED: &str = "NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = o.outbox::oid)";
    Step::new(
        "Column names of tables that no longer exist",
        format!("EXISTS (SELECT FROM postrider.outbox_columns o WHERE {DROPPED})"),
        vec![format!("DELETE FROM postrider.outbox_columns o WHERE {DROPPED}")],
    )
}

/// Stores the names of all tables. `recover` leaves them as they are if its role is not allowed to
/// change them.
pub(super) async fn store(
    client: &Client,
    wanted: &PostgresConfig,
    scope: Scope,
    report: &mut Report,
) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("show the rights of the role", &error);
    let is_allowed = has_rights(client, "outbox_columns", RIGHTS).await.map_err(failed)?;
    if is_allowed == Some(true) {
        make_if_missing(client, &forget_dropped()).await?;
    } else if scope == Scope::WithoutSlot
        || has_rights(client, "outbox_columns", &["SELECT"]).await.map_err(failed)? != Some(true)
    {
        return Ok(());
    }
    for table in &wanted.tables {
        let step = step(&wanted.slot, table);
        let is_known = is_known(client, table).await?;
        if make_if_missing(client, &step).await? && (is_known || is_mapped(table)) {
            report.note(if is_known { Change::Updated } else { Change::Created }, step.thing);
        }
        if holds(client, &differ_condition(&wanted.slot, table)).await? {
            report.notes.push(differ_note(&wanted.slot, table));
        }
    }
    Ok(())
}

/// Whether names have to be stored, which requires the rights to do so.
pub(super) async fn is_due(client: &Client, wanted: &PostgresConfig) -> Result<bool, MigrateError> {
    for table in &wanted.tables {
        if is_missing(client, &step(&wanted.slot, table)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn is_known(client: &Client, table: &OutboxTable) -> Result<bool, MigrateError> {
    let of_table = is_of_table(table);
    holds(client, &format!("EXISTS (SELECT FROM postrider.outbox_columns o WHERE {of_table})"))
        .await
}

async fn holds(client: &Client, condition: &str) -> Result<bool, MigrateError> {
    let failed = |error| MigrateError::statement("read the column names of the tables", &error);
    Ok(client.query_one(&format!("SELECT {condition}"), &[]).await.map_err(failed)?.get(0))
}

fn is_mapped(table: &OutboxTable) -> bool {
    Column::mappable().any(|column| table.columns.mapped(column).is_some())
}
