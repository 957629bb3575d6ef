//! What schema `postrider` holds for this relay and for the other relays of the database.

use tokio_postgres::{Client, GenericClient};

use super::error::TeardownError;
use super::find::failed;
use crate::config::{PostgresConfig, TableName, quote_identifier};
use crate::rights::{Lacking, has_rights};
use crate::schema::live;

/// Tables with rows of slots, and a condition for the rows that a relay still needs. Finished
/// events are not needed.
const BY_SLOT: &[(&str, &str)] = &[
    ("progress", "true"),
    ("coverage", "true"),
    ("backfill", "true"),
    ("undelivered", concat!("status IN ", live!())),
    // A row of a slot that is gone does not show that a relay needs the schema.
    ("slot_lock", "false"),
    ("outbox_columns", "false"),
];
/// The tables whose rows teardown deletes; rows of the others are deleted with them.
const DELETED: &[&str] = &["outbox_columns", "backfill", "progress", "undelivered", "slot_lock"];

/// The column names of a table that other slots cover as well become those of one of them: the
/// application may continue to call `postrider.enqueue`.
const HAND_OVER_COLUMNS: &str = "UPDATE postrider.outbox_columns o SET slot = c.slot \
      FROM (SELECT outbox, min(slot) AS slot FROM postrider.coverage WHERE slot <> $1 GROUP BY outbox) AS c \
     WHERE o.slot = $1 AND o.outbox = c.outbox";

/// What is stored.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Which of the tables exist: an older schema has fewer.
    tables: Vec<String>,
    /// Other slots about which something is stored.
    pub(super) others: Vec<String>,
    /// Events of this slot that never reached Kafka.
    pub(super) events: i64,
    /// How much consumers have claimed in the inbox; none if the role is not allowed to look.
    pub(super) claims: Option<i64>,
}

impl Stored {
    /// Reads it, and adds the rights that this requires and the role lacks.
    pub(super) async fn find(
        client: &Client,
        slot: &str,
        role: &str,
        lacking: &mut Vec<Lacking>,
    ) -> Result<Self, TeardownError> {
        let mut stored = Stored::default();
        for (table, _) in BY_SLOT {
            match has_right(client, table, "SELECT").await? {
                Some(true) => stored.tables.push((*table).to_owned()),
                Some(false) => lacking.push(right("SELECT", table, role)),
                None => {}
            }
        }
        stored.others = others(client, &stored.tables, slot).await?;
        if stored.has("undelivered") {
            let sql = concat!(
                "SELECT count(*) FROM postrider.undelivered WHERE slot = $1 AND status IN ",
                live!()
            );
            stored.events = client.query_one(sql, &[&slot]).await.map_err(failed)?.get(0);
        }
        if has_right(client, "inbox", "SELECT").await? == Some(true) {
            let sql = "SELECT count(*) FROM postrider.inbox";
            stored.claims = Some(client.query_one(sql, &[]).await.map_err(failed)?.get(0));
        }
        if !stored.others.is_empty() {
            for table in stored.deleted() {
                if has_right(client, table, "DELETE").await? == Some(false) {
                    lacking.push(right("DELETE", table, role));
                }
            }
            if has_right(client, "outbox_columns", "UPDATE").await? == Some(false) {
                lacking.push(right("UPDATE", "outbox_columns", role));
            }
        }
        Ok(stored)
    }

    fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|it| it == table)
    }

    fn deleted(&self) -> impl Iterator<Item = &'static str> {
        DELETED.iter().copied().filter(|table| self.has(table))
    }

    /// The statements that delete this slot's rows, or give them to another one.
    pub(super) fn delete_statements(&self) -> impl Iterator<Item = String> {
        let hands_over = self.has("outbox_columns") && self.has("coverage");
        let hand_over = hands_over.then(|| HAND_OVER_COLUMNS.to_owned());
        let delete = |table| format!("DELETE FROM postrider.{table} WHERE slot = $1");
        hand_over.into_iter().chain(self.deleted().map(delete))
    }

    /// The statement that keeps other relays from beginning to use the schema.
    pub(super) fn lock_statement(&self) -> Option<String> {
        let tables: Vec<String> =
            self.tables.iter().map(|table| format!("postrider.{table}")).collect();
        let names = tables.join(", ");
        (!tables.is_empty()).then(|| format!("LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"))
    }

    /// Other slots, as they are now.
    pub(super) async fn others_now(
        &self,
        client: &impl GenericClient,
        slot: &str,
    ) -> Result<Vec<String>, TeardownError> {
        others(client, &self.tables, slot).await
    }

    /// Other slots that read through the publication.
    pub(super) async fn readers(
        &self,
        client: &Client,
        slot: &str,
        publication: &str,
    ) -> Result<Vec<String>, TeardownError> {
        if !self.has("coverage") {
            return Ok(Vec::new());
        }
        let sql = "SELECT DISTINCT c.slot FROM postrider.coverage c
              JOIN pg_publication p ON p.pubname = $2
              LEFT JOIN pg_publication_rel r ON r.oid = c.membership
            WHERE c.slot <> $1 AND p.oid IN (c.membership, r.prpubid) ORDER BY 1";
        let rows = client.query(sql, &[&slot, &publication]).await.map_err(failed)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Tables that the publication lists for this slot alone: they are configured or promised, and
    /// no other slot reads them through these entries.
    pub(super) async fn unshared(
        &self,
        client: &Client,
        wanted: &PostgresConfig,
    ) -> Result<Vec<(u32, TableName)>, TeardownError> {
        let sql = "SELECT k.oid, n.nspname::text, k.relname::text,
                EXISTS (SELECT FROM postrider.coverage c
                         WHERE c.slot = $1 AND c.outbox::oid = k.oid)
              FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
              JOIN pg_class k ON k.oid = r.prrelid JOIN pg_namespace n ON n.oid = k.relnamespace
            WHERE p.pubname = $2 AND NOT EXISTS (SELECT FROM postrider.coverage c
                   WHERE c.slot <> $1 AND c.membership = r.oid)
            ORDER BY 2, 3";
        let rows = client.query(sql, &[&wanted.slot, &wanted.publication]).await.map_err(failed)?;
        let mut tables = Vec::new();
        for row in rows {
            let table = TableName { schema: row.get(1), name: row.get(2) };
            let is_promised: bool = row.get(3);
            if is_promised || wanted.tables.iter().any(|wanted| wanted.name == table) {
                tables.push((row.get(0), table));
            }
        }
        Ok(tables)
    }

    /// Other slots that cover the table.
    pub(super) async fn covering(
        &self,
        client: &Client,
        slot: &str,
        table: &TableName,
    ) -> Result<Vec<String>, TeardownError> {
        if !self.has("coverage") {
            return Ok(Vec::new());
        }
        let sql = "SELECT c.slot FROM postrider.coverage c
              JOIN pg_class t ON t.oid = c.outbox::oid JOIN pg_namespace n ON n.oid = t.relnamespace
            WHERE c.slot <> $1 AND n.nspname = $2 AND t.relname = $3 ORDER BY 1";
        let rows = client.query(sql, &[&slot, &table.schema, &table.name]).await.map_err(failed)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

/// Slots other than this one in any of the tables.
async fn others(
    client: &impl GenericClient,
    tables: &[String],
    slot: &str,
) -> Result<Vec<String>, TeardownError> {
    let of_table = |(table, matters): &(&str, &str)| {
        format!("SELECT slot FROM postrider.{table} WHERE slot <> $1 AND {matters}")
    };
    let known = BY_SLOT.iter().filter(|(table, _)| tables.iter().any(|it| it == table));
    let queries: Vec<String> = known.map(of_table).collect();
    if queries.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!("{} ORDER BY 1", queries.join(" UNION "));
    let rows = client.query(&sql, &[&slot]).await.map_err(failed)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Whether the role has the right on one of postrider's own tables; None if it does not exist.
async fn has_right(
    client: &Client,
    table: &str,
    right: &str,
) -> Result<Option<bool>, TeardownError> {
    has_rights(client, table, &[right]).await.map_err(failed)
}

fn right(right: &str, table: &str, role: &str) -> Lacking {
    Lacking {
        right: format!("{right} on postrider.{table}"),
        statement: format!(
            "GRANT USAGE ON SCHEMA postrider TO {role}; GRANT {right} ON postrider.{table} TO \
             {role}",
            role = quote_identifier(role)
        ),
    }
}
