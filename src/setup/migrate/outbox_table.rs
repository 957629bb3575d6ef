//! The default outbox table, with the column names of the configuration; and the limits of its
//! columns, some of which are missing in a table that an earlier version has created.

use std::collections::BTreeSet;

use tokio_postgres::Client;

use super::statements::{LOCK_TIMEOUT, Step};
use super::{Change, MigrateError, make_if_missing};
use crate::checks::Finding;
use crate::checks::table::TableProblem;
use crate::config::{OutboxTable, quote_identifier};
use crate::postgres::quote_literal;
use postrider_core::row::Column;

const OUTBOX_TABLE: &str = include_str!("../../../migrations/outbox_table.sql");

/// The beginning of the comment of a table that was created here.
pub(super) const COMMENT: &str =
    "Transactional outbox: a row inserted here is published to Kafka by postrider";

/// The default table needs each column exactly once.
pub(super) fn can_be_made(table: &OutboxTable) -> Result<(), MigrateError> {
    let refused = |reason| MigrateError::TableNotMade { table: table.name.clone(), reason };
    let mut names = BTreeSet::new();
    for column in Column::mappable() {
        let name = table.columns.of(column);
        if name.is_empty() {
            return Err(refused(format!("it would have no column for {}", column.name())));
        }
        if !names.insert(name) {
            return Err(refused(format!("{} would share the column \"{name}\"", column.name())));
        }
    }
    TableProblem::unknown_columns(table, |name| names.contains(name))
        .map_err(|problem| Finding::from(problem).into())
}

/// The statements that create it.
pub(super) fn statement(table: &OutboxTable) -> String {
    let mut places = vec![("{table}".to_owned(), table.name.quoted())];
    for column in Column::mappable() {
        // Our own names need no quotes.
        let name = table.columns.mapped(column).map(quote_identifier);
        let name = name.unwrap_or_else(|| column.name().to_owned());
        places.push((format!("{{{}}}", column.name()), name));
    }
    // In one pass, because a name may look like a placeholder.
    let mut statement = String::with_capacity(OUTBOX_TABLE.len());
    let mut rest = OUTBOX_TABLE;
    while let Some((before, from_place)) = rest.find('{').and_then(|at| rest.split_at_checked(at)) {
        statement.push_str(before);
        let place = places.iter().find(|(place, _)| from_place.starts_with(place.as_str()));
        let (length, name) = place.map_or((1, "{"), |(place, name)| (place.len(), name.as_str()));
        statement.push_str(name);
        rest = from_place.get(length..).unwrap_or_default();
    }
    statement + rest
}

/// Adds the limits that a table lacks.
pub(super) async fn add_limits(
    client: &Client,
    table: &OutboxTable,
) -> Result<Change, MigrateError> {
    let mut change = Change::Found;
    for step in limits(table) {
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
pub(super) fn limits(table: &OutboxTable) -> impl Iterator<Item = Step> {
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
            quote_literal(&format!("{}%", COMMENT)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::format::Format;
    use postrider_core::route::Route;
    use postrider_core::row::ColumnNames;

    fn outbox(mapped: &[(Column, &str)]) -> OutboxTable {
        let mut columns = ColumnNames::default();
        for (column, name) in mapped {
            columns.map(*column, (*name).to_owned());
        }
        let (route, format) = (Route::default(), Format::default());
        let name = "orders.outbox".parse().unwrap();
        OutboxTable { name, columns, route, format, debezium: None }
    }

    #[test]
    fn every_place_is_filled_with_the_tables_name_for_it() {
        let plain = statement(&outbox(&[]));
        assert!(plain.contains("CREATE TABLE \"orders\".\"outbox\" (\n    id "), "{plain}");
        assert!(plain.contains("UNIQUE (topic, idempotency_key)"), "{plain}");
        assert!(!plain.contains(['{', '}']), "{plain}");
        assert!(plain.contains(&format!("IS '{COMMENT}")), "{plain}");
        let mapped =
            statement(&outbox(&[(Column::Topic, "{id} \"order\""), (Column::Type, "kind")]));
        assert!(mapped.contains("UNIQUE (\"{id} \"\"order\"\"\", idempotency_key)"), "{mapped}");
        assert!(mapped.contains(".\"kind\" IS 'Event type"), "{mapped}");
    }

    #[test]
    fn a_table_that_would_need_a_column_twice_is_not_made() {
        let check = |mapped: &[_], made: bool| {
            assert_eq!(can_be_made(&outbox(mapped)).is_ok(), made, "{mapped:?}");
        };
        check(&[], true);
        check(&[(Column::Topic, "destination")], true);
        check(&[(Column::Topic, "type"), (Column::Type, "topic")], true);
        check(&[(Column::Topic, "type")], false);
        check(&[(Column::Tenant, "created_at")], false);
        check(&[(Column::Tenant, "created_at"), (Column::CreatedAt, "at")], true);
        check(&[(Column::Tenant, "")], false);
        let columns = postrider_core::debezium::Options::default().column_names();
        let debezium = OutboxTable { columns, ..outbox(&[]) };
        let error = can_be_made(&debezium).unwrap_err();
        assert!(error.to_string().contains("would share the column \"id\""), "{error}");
    }
}
