//! Values too large for the side table, read from the outbox.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::ParkedRow;
use crate::config::{OutboxTable, quote_identifier};
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::row::Column;

/// The value of an event that is parked by reference, as the relay would have sent it; or why it is
/// unavailable, which waiting does not change.
pub async fn reference_value(
    client: &Client,
    row: &ParkedRow,
    tables: &[OutboxTable],
) -> Result<Result<Option<Vec<u8>>, Refusal>, Error> {
    let name = &row.source_table;
    let Some(table) = tables.iter().find(|table| table.name.to_string() == *name) else {
        return Ok(Err(missing(format!("table {name} is not in postgres.tables any more"))));
    };
    if !table.value_is_payload() {
        // The value has parts that were only in the log.
        let format = match &table.debezium {
            Some(_) => "that of [debezium]",
            None => table.format.value.name(),
        };
        return Ok(Err(missing(format!(
            "its format is {format}, which can't be built again from the table; insert the event \
             again"
        ))));
    }
    let id_column = table.columns.of(Column::Id);
    let Some(id) = row.row_id.as_deref().filter(|_| !id_column.is_empty()) else {
        return Ok(Err(missing(format!("its row in {name} has no id"))));
    };
    let Some(id_type) = column_type(client, table, id_column).await? else {
        return Ok(Err(missing(format!("{name} has no column \"{id_column}\" any more"))));
    };
    let payload_column = table.columns.of(Column::Payload);
    let Some(payload_type) = column_type(client, table, payload_column).await? else {
        return Ok(Err(missing(format!("{name} has no column \"{payload_column}\" any more"))));
    };
    let payload = quote_identifier(payload_column);
    let bytes = match payload_type.as_str() {
        "bytea" => format!("{payload}::bytea"),
        // The output of the type itself, as in the log: a cast to text would remove trailing blanks
        // of char(n).
        _ => format!(
            "CASE WHEN {payload} IS NOT NULL THEN convert_to(format('%s', {payload}), 'UTF8') END"
        ),
    };
    // The id is cast to the column's type, not the column to text: that could not use the index.
    let sql = format!(
        "SELECT {bytes} FROM {} WHERE {} = CAST($1::text AS {id_type}) LIMIT 1",
        table.name.quoted(),
        quote_identifier(id_column),
    );
    let found = match client.query_opt(&sql, &[&id]).await {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            return Ok(Err(missing(format!("the role can't read {name}: GRANT SELECT on it"))));
        }
        found => found?,
    };
    let Some(found) = found else {
        let detail = if hides_rows(client, table).await? {
            format!(
                "row-level security hides rows of {name} from the role: ALTER ROLE … BYPASSRLS, or a policy \
             that shows them"
            )
        } else {
            format!("its row is not in {name} any more")
        };
        return Ok(Err(missing(detail)));
    };
    let value: Option<Vec<u8>> = found.try_get(0)?;
    if value.as_ref().map_or(0, Vec::len) == row.value_bytes {
        Ok(Ok(value))
    } else {
        Ok(Err(missing(format!("its row in {name} was changed"))))
    }
}

async fn hides_rows(client: &Client, table: &OutboxTable) -> Result<bool, Error> {
    const SQL: &str = "SELECT row_security_active($1::text::regclass)";
    client.query_one(SQL, &[&table.name.quoted()]).await?.try_get(0)
}

/// The column's type, or what it is a domain over.
async fn column_type(
    client: &Client,
    table: &OutboxTable,
    column: &str,
) -> Result<Option<String>, Error> {
    const SQL: &str = "WITH RECURSIVE base AS ( \
          SELECT t.oid, t.typtype, t.typbasetype FROM pg_attribute a \
            JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
            JOIN pg_type t ON t.oid = a.atttypid \
           WHERE n.nspname = $1 AND c.relname = $2 AND a.attname = $3 \
             AND a.attnum > 0 AND NOT a.attisdropped \
          UNION ALL \
          SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype \
           WHERE b.typtype = 'd') \
        SELECT format_type(oid, NULL) FROM base WHERE typtype <> 'd'";
    let row = client.query_opt(SQL, &[&table.name.schema, &table.name.name, &column]).await?;
    row.map(|row| row.try_get(0)).transpose()
}

fn missing(why: String) -> Refusal {
    let detail = format!("the event's value is too large for the side table, and {why}");
    Refusal { reason: Reason::ValueMissing, detail }
}
