//! `postrider migrate --withdraw TABLE`: ends a promise on purpose.

use tokio_postgres::Transaction;

use super::error::MigrateError;
use super::session::{begin, lock};
use crate::config::{Config, PostgresConfig, TableName, quote_identifier};
use crate::postgres::{self, Connected};
use crate::rights::has_rights;

/// Ends the promises for these tables of the configured slot, and removes from the publication
/// those that no slot needs any more. Returns what it did, one line each; after an error nothing
/// was done.
///
/// With `messages` also ends the promise to publish events without a table. A relay without
/// postgres.messages does not read those that were written before.
pub(crate) async fn withdraw(
    config: &Config,
    tables: &[TableName],
    messages: bool,
) -> Result<Vec<String>, MigrateError> {
    let wanted = &config.postgres;
    if messages && wanted.messages.is_some() {
        return Err(MigrateError::MessagesConfigured);
    }
    if let Some(table) = wanted.table_names().into_iter().find(|name| tables.contains(name)) {
        return Err(MigrateError::StillConfigured { table });
    }
    let Connected { mut client, guard: _guard, .. } = postgres::connect(&wanted.connection).await?;
    let failed = |error| MigrateError::statement("withdraw a promise", &error);
    begin(&client).await.map_err(MigrateError::of_command_lock)?;
    let transaction = client.transaction().await.map_err(failed)?;
    lock(transaction.client()).await.map_err(failed)?;
    let mut lines = Vec::new();
    for table in tables {
        lines.extend(withdraw_table(&transaction, wanted, table).await?);
    }
    if messages {
        let sql = "DELETE FROM postrider.message_slot WHERE slot = $1";
        let slot = &wanted.slot;
        lines.push(match transaction.execute(sql, &[slot]).await.map_err(failed)? {
            0 => format!("found     no promise of slot {slot} for events without a table"),
            _ => format!("withdrew  the promise of slot {slot} for events without a table"),
        });
    }
    transaction.commit().await.map_err(failed)?;
    Ok(lines)
}

/// Finds the table by its present name, or by the name that it was promised under if it was dropped
/// or renamed.
async fn withdraw_table(
    transaction: &Transaction<'_>,
    wanted: &PostgresConfig,
    table: &TableName,
) -> Result<Vec<String>, MigrateError> {
    const FORGET: &str = "DELETE FROM postrider.coverage v USING (
            SELECT c.slot, c.outbox, n.nspname::text AS schema_name, k.relname::text AS table_name
              FROM postrider.coverage c LEFT JOIN pg_class k ON k.oid = c.outbox::oid
              LEFT JOIN pg_namespace n ON n.oid = k.relnamespace) AS now
          WHERE v.slot = $1 AND v.outbox::oid <> 0 AND now.slot = v.slot AND now.outbox = v.outbox
            AND ((now.schema_name, now.table_name) = ($2, $3)
                 OR (v.schema_name, v.table_name) = ($2, $3))
        RETURNING v.outbox::oid";
    let what = format!("withdraw the promise for {table}");
    let failed = |error| MigrateError::statement(what.clone(), &error);
    let slot = &wanted.slot;
    let rows = transaction.query(FORGET, &[slot, &table.schema, &table.name]).await;
    let rows = rows.map_err(failed)?;
    if rows.is_empty() {
        let promised = promised(transaction, slot).await.map_err(failed)?;
        return Err(MigrateError::NotPromised {
            slot: slot.clone(),
            table: table.clone(),
            promised,
        });
    }
    for row in &rows {
        forget_columns(transaction, slot, row.get(0)).await.map_err(failed)?;
    }
    let mut lines = vec![format!("withdrew  the promise of slot {slot} for table {table}")];
    let publication = &wanted.publication;
    let what = format!("remove a table from publication {publication}");
    for row in rows {
        let taken = unpublish(transaction, publication, row.get(0)).await;
        let taken = taken.map_err(|error| MigrateError::statement(what.clone(), &error))?;
        lines.extend(taken.map(|(table, needed_by)| match needed_by {
            Some(slots) => {
                format!(
                    "kept      table {table} in publication {publication}: slot {slots} needs it"
                )
            }
            None => format!("dropped   table {table} from publication {publication}"),
        }));
    }
    Ok(lines)
}

/// Forgets the column names for `postrider.enqueue`, unless another slot still publishes what it
/// writes.
async fn forget_columns(
    transaction: &Transaction<'_>,
    slot: &str,
    outbox: u32,
) -> Result<(), tokio_postgres::Error> {
    if has_rights(transaction, "outbox_columns", &["DELETE"]).await?.is_none() {
        return Ok(());
    }
    const HAND_OVER: &str = "UPDATE postrider.outbox_columns o SET slot = c.slot \
          FROM (SELECT min(slot) AS slot FROM postrider.coverage WHERE outbox::oid = $2) AS c \
         WHERE o.slot = $1 AND o.outbox::oid = $2 AND c.slot IS NOT NULL";
    const FORGET: &str =
        "DELETE FROM postrider.outbox_columns WHERE slot = $1 AND outbox::oid = $2";
    for statement in [HAND_OVER, FORGET] {
        transaction.execute(statement, &[&slot, &outbox]).await?;
    }
    Ok(())
}

async fn promised(
    transaction: &Transaction<'_>,
    slot: &str,
) -> Result<Vec<String>, tokio_postgres::Error> {
    const SQL: &str = "SELECT coalesce(format('%I.%I', n.nspname, k.relname),
                                       format('%I.%I', c.schema_name, c.table_name))
          FROM postrider.coverage c LEFT JOIN pg_class k ON k.oid = c.outbox::oid
          LEFT JOIN pg_namespace n ON n.oid = k.relnamespace
         WHERE c.slot = $1 AND c.outbox::oid <> 0 ORDER BY 1";
    let rows = transaction.query(SQL, &[&slot]).await?;
    rows.iter().filter_map(|row| row.try_get(0).transpose()).collect()
}

/// Removes the table from the publication that lists it, unless slots need it there: then it
/// returns their names. None: the publication does not list it.
pub(crate) async fn unpublish(
    transaction: &Transaction<'_>,
    publication: &str,
    outbox: u32,
) -> Result<Option<(TableName, Option<String>)>, tokio_postgres::Error> {
    const ENTRY: &str = "SELECT n.nspname::text, k.relname::text,
               (SELECT string_agg(c.slot, ', ' ORDER BY c.slot) FROM postrider.coverage c
                 WHERE c.membership = r.oid)
          FROM pg_publication b JOIN pg_publication_rel r ON r.prpubid = b.oid AND r.prrelid = $2
          JOIN pg_class k ON k.oid = r.prrelid JOIN pg_namespace n ON n.oid = k.relnamespace
         WHERE b.pubname = $1";
    let Some(row) = transaction.query_opt(ENTRY, &[&publication, &outbox]).await? else {
        return Ok(None);
    };
    let table = TableName { schema: row.get(0), name: row.get(1) };
    let needed_by: Option<String> = row.get(2);
    if needed_by.is_none() {
        let (name, quoted) = (quote_identifier(publication), table.quoted());
        let sql = format!("ALTER PUBLICATION {name} DROP TABLE {quoted}");
        transaction.batch_execute(&sql).await?;
    }
    Ok(Some((table, needed_by)))
}
