//! Rows whose events are in the side table: they are published from there, or never.

use tokio_postgres::{Client, Error};

use crate::config::{OutboxTable, quote_identifier};
use crate::parking::store::is_gone;
use crate::postgres::quote_literal;
use crate::progress::coverage;
use crate::schema::live_statuses;
use postrider_core::row::{Column, PresentTable};

/// Types whose text is the same in the log and in SQL: bigint, smallint, integer, text, varchar,
/// uuid.
const ID_TYPES: [u32; 6] = [20, 21, 23, 25, 1043, UUID];
const UUID: u32 = 2950;
const TIMESTAMPTZ: u32 = 1184;
/// Statuses of events that will be published from the side table. There is an index on them.
pub(super) const LIVE: &str = live_statuses!();
/// The status of events that were discarded. There is another index on them.
pub(super) const DISCARDED: &str = "'discarded'";

/// How to recognise the row that an entry of the side table was made from. The id alone does not
/// prove it: a table that was truncated, or dropped and created again, assigns the same ids again.
/// When in doubt, the row is published.
pub(super) struct Parked {
    /// The names under which the side table may know the table.
    tables: Vec<String>,
    /// The quoted name of its id column.
    id: String,
    /// A condition that proves it.
    proof: String,
}

impl Parked {
    /// None if rows can't be recognised, or if the role is not allowed to read the side table.
    pub(super) async fn look_up(
        client: &Client,
        table: &OutboxTable,
        present: &PresentTable,
    ) -> Result<Option<Self>, Error> {
        const MAY_READ: &str = "SELECT EXISTS (SELECT FROM pg_class c \
              JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = 'postrider' AND c.relname = 'undelivered' \
               AND has_table_privilege(c.oid, 'SELECT'))";
        const IS_UNIQUE: &str = "SELECT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a \
                ON a.attrelid = i.indrelid AND a.attname = $2 AND a.attnum = i.indkey[0] \
             WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL \
               AND i.indnkeyatts = 1)";
        let type_of = |column: &str| present.column(column).map(|it| it.type_oid);
        let id = table.columns.of(Column::Id);
        let Some(id_type) = type_of(id).filter(|oid| ID_TYPES.contains(oid)) else {
            return Ok(None);
        };
        if !client.query_one(MAY_READ, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        let is_unique = client.query_one(IS_UNIQUE, &[&present.id, &id]).await?.try_get(0)?;
        let key = table.columns.of(Column::IdempotencyKey);
        let created_at = table.columns.of(Column::CreatedAt);
        let of_id = if is_unique && id_type == UUID {
            Some("true".to_owned())
        } else if is_unique && type_of(created_at) == Some(TIMESTAMPTZ) {
            // The row already existed when the entry was made.
            Some(format!("t.{} <= u.created_at", quote_identifier(created_at)))
        } else {
            None
        };
        let has_key = key != id && type_of(key).is_some_and(|oid| ID_TYPES.contains(&oid));
        let key = quote_identifier(key);
        let proof = match (has_key, of_id) {
            (true, Some(of_id)) => format!(
                "CASE WHEN t.{key} IS NULL AND u.idempotency_key IS NULL THEN {of_id} \
                      ELSE u.idempotency_key = t.{key}::text END"
            ),
            (true, None) => format!("u.idempotency_key = t.{key}::text"),
            (false, Some(of_id)) => of_id,
            (false, None) => return Ok(None),
        };
        let tables = coverage::names_of(client, &table.name).await?;
        Ok(Some(Parked { tables, id: quote_identifier(id), proof }))
    }

    /// A condition: the entry `u` belongs to the row `t`, and has one of these statuses.
    pub(super) fn entry_condition(&self, slots: &[String], statuses: &str) -> String {
        let Parked { tables, id, proof } = self;
        format!(
            "{} AND u.slot IN ({}) AND u.row_id = t.{id}::text AND {proof}",
            of_table(tables, statuses),
            list(slots),
        )
    }

    /// The slots whose entries count: this one, and slots that no longer exist. What another
    /// existing slot has parked or discarded does not show what this one still has to publish.
    pub(super) async fn slots(&self, client: &Client, slot: &str) -> Result<Vec<String>, Error> {
        let sql = format!(
            "SELECT u.slot FROM postrider.undelivered u WHERE {} GROUP BY u.slot \
             HAVING u.slot = $1 OR {}",
            of_table(&self.tables, &format!("{LIVE}, {DISCARDED}")),
            is_gone!("u.slot"),
        );
        let rows = client.query(&sql, &[&slot]).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}

fn of_table(tables: &[String], statuses: &str) -> String {
    format!("u.source_table IN ({}) AND u.status IN ({statuses})", list(tables))
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quote_literal(name)).collect::<Vec<_>>().join(", ")
}
