//! Rows whose events are in the side table: these are published from there, or never.

use tokio_postgres::{Client, Error};

use super::table::CREATED_AT;
use crate::config::{OutboxTable, quote_identifier};
use crate::migrate::quote_literal;
use crate::outbox::{Column, PresentTable};

/// Types whose text is the same in the log and in SQL: bigint, smallint, integer, text, varchar, uuid.
const ID_TYPES: [u32; 6] = [20, 21, 23, 25, 1043, UUID];
const UUID: u32 = 2950;
const TIMESTAMPTZ: u32 = 1184;
/// Their events will be published from the side table. An index has these.
pub(super) const LIVE: &str = "'pending', 'processing', 'dead'";
/// Their events were given up. Another index has these.
pub(super) const DISCARDED: &str = "'discarded'";

/// How a row is told to be the one that an entry was made of. Ids alone don't say it: a table that was
/// dropped and created again, or truncated, gives them out again. When in doubt, the row is published.
pub(super) struct Parked {
    /// As the side table has it.
    table: String,
    /// The column, as SQL has it.
    id: String,
    /// What makes it certain.
    proof: String,
}

impl Parked {
    /// None if nothing can be told, or the role may not look into the side table.
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
        let type_of = |column: &str| {
            present.columns.iter().find(|(name, _)| name == column).map(|(_, oid)| *oid)
        };
        let id = table.columns.of(Column::Id);
        let Some(id_type) = type_of(id).filter(|oid| ID_TYPES.contains(oid)) else {
            return Ok(None);
        };
        if !client.query_one(MAY_READ, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        let is_unique = client.query_one(IS_UNIQUE, &[&present.id, &id]).await?.try_get(0)?;
        let key = table.columns.of(Column::IdempotencyKey);
        // One of them: the server can't look for several at once in an index.
        let proof = if key != id && type_of(key).is_some_and(|oid| ID_TYPES.contains(&oid)) {
            format!("u.idempotency_key = t.{}::text", quote_identifier(key))
        } else if is_unique && id_type == UUID {
            "true".to_owned()
        } else if is_unique && type_of(CREATED_AT) == Some(TIMESTAMPTZ) {
            // The row was there when the entry was made.
            format!("t.{} <= u.created_at", quote_identifier(CREATED_AT))
        } else {
            return Ok(None);
        };
        Ok(Some(Parked { table: table.name.to_string(), id: quote_identifier(id), proof }))
    }

    /// The entry `u` is that of the row `t`, and has one of these statuses.
    pub(super) fn is_entry(&self, slot: &str, statuses: &str) -> String {
        let Parked { table, id, proof } = self;
        format!(
            "{} AND md5(u.row_id) = md5(t.{id}::text) AND u.row_id = t.{id}::text AND {proof}",
            of_table(slot, table, statuses),
        )
    }

    /// Whether there is an entry at all.
    pub(super) async fn has_entries(&self, client: &Client, slot: &str) -> Result<bool, Error> {
        let is_entry = of_table(slot, &self.table, &format!("{LIVE}, {DISCARDED}"));
        let sql = format!("SELECT EXISTS (SELECT FROM postrider.undelivered u WHERE {is_entry})");
        client.query_one(&sql, &[]).await?.try_get(0)
    }
}

fn of_table(slot: &str, table: &str, statuses: &str) -> String {
    format!(
        "u.slot = {} AND u.source_table = {} AND u.status IN ({statuses})",
        quote_literal(slot),
        quote_literal(table),
    )
}
