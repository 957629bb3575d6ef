//! Discarded events are remembered as long as their rows are in the outbox: a recovery reads these
//! rows, and must not publish what an operator has discarded.

use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::rebase::is_past;
use crate::config::{OutboxTable, quote_identifier};
use crate::progress::coverage;
use postrider_core::row::Column;

/// Deletes discarded rows that are older than the retention and not needed any more, at most
/// `batch` of each table; returns the largest number of rows deleted for one.
pub async fn clean_discarded(
    client: &Client,
    slot: &str,
    retention: Duration,
    batch: usize,
    tables: &[OutboxTable],
) -> Result<usize, Error> {
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let seconds = retention.as_secs_f64();
    let mut most = 0;
    let mut names = Vec::new();
    for table in tables {
        let of_table = coverage::names_of(client, &table.name).await?;
        if let Some(is_gone) = is_gone(client, table).await? {
            let sql = statement(&format!("u.source_table = ANY($4) AND {is_gone}"));
            let deleted = client.execute(&sql, &[&slot, &seconds, &batch, &of_table]).await?;
            most = most.max(deleted);
        }
        names.extend(of_table);
    }
    // Nobody reads the rows of other tables.
    let sql = statement("u.source_table <> ALL($4)");
    most = most.max(client.execute(&sql, &[&slot, &seconds, &batch, &names]).await?);
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}

fn statement(condition: &str) -> String {
    format!(
        "DELETE FROM postrider.undelivered WHERE id = ANY(ARRAY( \
            SELECT u.id FROM postrider.undelivered u \
             WHERE u.slot = $1 AND u.status = 'discarded' \
               AND u.updated_at < now() - $2 * interval '1 second' \
               AND {} AND {condition} \
             ORDER BY u.updated_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
        is_past!()
    )
}

/// The row of the entry `u` is not in the table. None: unknown, because the role is not allowed to
/// see all of its rows, or because the table was renamed and the configuration does not have the
/// new name yet.
async fn is_gone(client: &Client, table: &OutboxTable) -> Result<Option<String>, Error> {
    const SQL: &str = "WITH RECURSIVE base AS ( \
          SELECT t.oid, t.typtype, t.typbasetype FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
            JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
           WHERE n.nspname = $1 AND c.relname = $2 AND a.attname = $3 \
             AND a.attnum > 0 AND NOT a.attisdropped \
          UNION ALL \
          SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype \
           WHERE b.typtype = 'd') \
        SELECT (SELECT format_type(oid, NULL) FROM base WHERE typtype <> 'd'), \
               has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') \
               AND NOT row_security_active(c.oid) \
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relname = $2";
    let id = table.columns.of(Column::Id);
    let name = &table.name;
    let gone = "true".to_owned();
    let Some(row) = client.query_opt(SQL, &[&name.schema, &name.name, &id]).await? else {
        return Ok((!coverage::was_renamed(client, name).await?).then_some(gone));
    };
    if !row.try_get::<_, bool>(1)? {
        return Ok(None);
    }
    let id_type: Option<String> = row.try_get(0)?;
    // The entry's id is cast to the column's type, not the column to text: that could not use the
    // index. Entries whose id is not of that type are kept.
    let (is_legal, value) = match id_type.as_deref() {
        Some("bigint" | "integer" | "smallint") => (NUMBER, "u.row_id::bigint"),
        Some("uuid") => (UUID, "u.row_id::uuid"),
        Some("text" | "character varying") => ("u.row_id IS NOT NULL", "u.row_id"),
        // Ids of other types are never looked up in the side table, so no row is left out because
        // of them.
        _ => return Ok(Some(gone)),
    };
    Ok(Some(format!(
        "CASE WHEN u.row_id IS NULL THEN true WHEN {is_legal} \
              THEN NOT EXISTS (SELECT FROM {} t WHERE t.{} = {value}) ELSE false END",
        name.quoted(),
        quote_identifier(id),
    )))
}

const NUMBER: &str = "u.row_id ~ '^-?[0-9]{1,18}$' OR (u.row_id ~ '^[0-9]{19}$' \
    AND u.row_id COLLATE \"C\" <= '9223372036854775807')";
const UUID: &str = "u.row_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'";
