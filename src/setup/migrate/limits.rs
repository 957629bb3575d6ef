//! The limits of an outbox table's columns: a table that an earlier version has created lacks some.

use tokio_postgres::Client;

use super::statements::{LOCK_TIMEOUT, Step};
use super::{Change, MigrateError, make_if_missing, outbox_table};
use crate::config::{OutboxTable, quote_identifier};
use crate::postgres::quote_literal;
use postrider_core::row::Column;

/// Adds those that are missing.
pub(super) async fn complete(client: &Client, table: &OutboxTable) -> Result<Change, MigrateError> {
    let mut change = Change::Found;
    for step in steps(table) {
        if make_if_missing(client, &step).await? {
            change = Change::Updated;
        }
    }
    Ok(change)
}

/// The limits that a table lacks because an earlier version of postrider created it. Existing rows
/// are not checked. Tables that others own or created are left alone, and so is a column that has
/// any limit: a CHECK that bounds its size from above, not one of something else. The name of the
/// constraint does not show that: Postgres gives the same name to any CHECK of the column.
pub(super) fn steps(table: &OutboxTable) -> impl Iterator<Item = Step> {
    // This turns `octet_length((headers)::text) <= 9` into `octet_lengthheaders <= 9`. The names of
    // all functions that measure text end in length.
    let bare = |sql: &str| format!("replace(translate({sql}, '()\"', ''), '::text', '')");
    Column::ALL.into_iter().filter_map(move |column| {
        let bytes_max = column.bytes_max()?;
        let (name, column) = (table.name.quoted(), table.columns.of(column));
        let missing = format!(
            "EXISTS (SELECT FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
              WHERE c.oid = to_regclass({}) AND pg_has_role(c.relowner, 'USAGE') \
                AND obj_description(c.oid, 'pg_class') LIKE {} \
                AND a.attname = {} AND NOT a.attisdropped \
                AND a.atttypid IN ('text'::regtype, 'json'::regtype, 'jsonb'::regtype) \
                AND NOT EXISTS (SELECT FROM pg_constraint k, \
                                       unnest(ARRAY['length', 'pg_column_size']) AS f(size), \
                                       unnest(ARRAY[' <', ' =']) AS o(bounds) \
                                 WHERE k.conrelid = c.oid AND k.contype = 'c' \
                                   AND a.attnum = ANY (k.conkey) \
                                   AND strpos({}, f.size || {} || o.bounds) > 0))",
            quote_literal(&name),
            quote_literal(&format!("{}%", outbox_table::COMMENT)),
            quote_literal(column),
            bare("pg_get_constraintdef(k.oid)"),
            bare("a.attname::text"),
        );
        let add = format!(
            "ALTER TABLE {name} ADD CHECK (octet_length({}::text) <= {bytes_max}) NOT VALID",
            quote_identifier(column)
        );
        let make = vec![format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"), add];
        Some(Step::new(format!("limit of {column} in table {}", table.name), missing, make))
    })
}
