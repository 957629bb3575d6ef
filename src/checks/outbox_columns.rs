//! The column names with which `postrider.enqueue` writes each outbox table, as stored in
//! `postrider.outbox_columns`: pieces of SQL that compare them with the configuration.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Error};

use crate::config::{OutboxTable, PostgresConfig};
use crate::postgres::quote_literal;
use crate::rights::has_rights;
use postrider_core::row::Column;

/// The mapped columns, as a JSON object in SQL.
pub(crate) fn columns_of(table: &OutboxTable) -> String {
    let named = |column: Column| Some((column.name(), table.columns.mapped(column)?));
    let columns: BTreeMap<&str, &str> = Column::mappable().filter_map(named).collect();
    format!("{}::jsonb", quote_literal(&serde_json::json!(columns).to_string()))
}

/// A condition: the row `o` is that of the table.
pub(crate) fn is_of_table(table: &OutboxTable) -> String {
    format!("o.outbox::oid = to_regclass({})::oid", quote_literal(&table.name.quoted()))
}

/// A condition: the row `o` belongs to another relay, whose slot exists.
pub(crate) fn is_of_another(slot: &str) -> String {
    let slot = quote_literal(slot);
    format!(
        "(o.slot <> {slot} AND EXISTS (SELECT FROM pg_replication_slots r \
           WHERE r.slot_name = o.slot AND r.database = current_database()))"
    )
}

/// Logs tables that `postrider.enqueue` does not write as the configuration has them: the relay
/// would find other columns than those that were written.
pub(crate) async fn warn_outdated_columns(
    client: &Client,
    config: &PostgresConfig,
) -> Result<(), Error> {
    if has_rights(client, "outbox_columns", &["SELECT"]).await? != Some(true) {
        return Ok(());
    }
    for table in &config.tables {
        let (columns, of_table) = (columns_of(table), is_of_table(table));
        let of_another = is_of_another(&config.slot);
        let sql = format!(
            "SELECT coalesce((SELECT o.columns <> {columns} AND NOT {of_another} \
                                FROM postrider.outbox_columns o WHERE {of_table}), {columns} <> '{{}}')"
        );
        if client.query_one(&sql, &[]).await?.try_get(0)? {
            tracing::warn!(
                table = %table.name,
                "postrider.enqueue does not write this table with the column names of the \
                 configuration: run `postrider migrate`"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::format::Format;
    use postrider_core::route::Route;
    use postrider_core::row::ColumnNames;

    #[test]
    fn only_mapped_columns_are_stored_and_quotes_survive() {
        let name = "public.outbox".parse().unwrap();
        let mut table = OutboxTable {
            name,
            columns: ColumnNames::default(),
            route: Route::default(),
            format: Format::default(),
            debezium: None,
        };
        assert_eq!(columns_of(&table), "'{}'::jsonb");
        table.columns.map(Column::Topic, "it's \"odd\"".to_owned());
        table.columns.map(Column::Tenant, String::new());
        let expect = r#"E'{"tenant":"","topic":"it''s \\"odd\\""}'::jsonb"#;
        assert_eq!(columns_of(&table), expect);
    }
}
