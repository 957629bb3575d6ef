//! What is there of what `migrate` makes, and what of it can go.

use bytesize::ByteSize;
use tokio_postgres::{Client, Row};

use super::error::TeardownError;
use super::report::{Fate, Item};
use crate::config::{PostgresConfig, TableName, quote_identifier};
use crate::migrate::{Lacking, ownership};

/// What can be dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Slot,
    Publication,
    /// Schema `postrider`, with the quoted names of the tables and functions in it.
    Schema {
        tables: Option<String>,
        functions: Option<String>,
    },
    Table(TableName),
}

/// In the order they are dropped.
pub(super) async fn find(
    client: &Client,
    wanted: &PostgresConfig,
    tables: bool,
) -> Result<Vec<(Thing, Item)>, TeardownError> {
    let row = client.query_one("SELECT current_user::text", &[]).await.map_err(failed)?;
    let mut finder = Finder { client, role: row.get(0), lacking: Vec::new() };
    let mut things = vec![
        (Thing::Slot, slot(client, &wanted.slot).await?),
        (Thing::Publication, finder.publication(wanted).await?),
        finder.schema().await?,
    ];
    for table in &wanted.tables {
        let item = finder.table(&table.name, tables).await?;
        things.push((Thing::Table(table.name.clone()), item));
    }
    match finder.lacking.is_empty() {
        true => Ok(things),
        false => {
            let role = quote_identifier(&finder.role);
            Err(TeardownError::Privileges { role, lacking: finder.lacking })
        }
    }
}

async fn slot(client: &Client, name: &str) -> Result<Item, TeardownError> {
    let sql = "SELECT coalesce(plugin::text, slot_type), coalesce(database::text, ''),
            current_database()::text, active_pid,
            (SELECT nullif(application_name, '') FROM pg_stat_activity WHERE pid = active_pid),
            coalesce(pg_current_wal_lsn() - confirmed_flush_lsn, 0)::bigint
        FROM pg_replication_slots WHERE slot_name = $1";
    let thing = format!("slot {name}");
    let Some(row) = client.query_opt(sql, &[&name]).await.map_err(failed)? else {
        return Ok(Item::new(Fate::Missing, thing, None));
    };
    let slot = name.to_owned();
    let (found, database, here): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    if found != "pgoutput" {
        return Err(TeardownError::SlotKind { slot, found });
    }
    if database != here {
        return Err(TeardownError::SlotDatabase { slot, database, here });
    }
    if let Some(pid) = row.get::<_, Option<i32>>(3) {
        // Whose session it is, the server tells only the same role and monitors.
        let name = row.get::<_, Option<String>>(4).map(|name| format!(" ({name})"));
        let by = format!(" by PID {pid}{}", name.unwrap_or_default());
        return Err(TeardownError::SlotInUse { slot, by });
    }
    let unread = ByteSize(u64::try_from(row.get::<_, i64>(5)).unwrap_or(0));
    let note = format!("{unread} of WAL behind it are not confirmed");
    Ok(Item::new(Fate::Drop, thing, Some(note)))
}

struct Finder<'a> {
    client: &'a Client,
    role: String,
    lacking: Vec<Lacking>,
}

impl Finder<'_> {
    /// Whether to drop depends on who reads through it, which nobody can know: what publishes more
    /// than our tables may have been made for others.
    async fn publication(&mut self, wanted: &PostgresConfig) -> Result<Item, TeardownError> {
        let name = &wanted.publication;
        let thing = format!("publication {name}");
        let sql = "SELECT puballtables, oid, pg_has_role(pubowner, 'USAGE'),
                pg_get_userbyid(pubowner)::text
            FROM pg_publication WHERE pubname = $1";
        let Some(row) = self.client.query_opt(sql, &[name]).await.map_err(failed)? else {
            return Ok(Item::new(Fate::Missing, thing, None));
        };
        let others = self.others(wanted).await?;
        let why = match (row.get::<_, bool>(0), others.is_empty()) {
            (true, _) => Some("it publishes all tables".to_owned()),
            (false, false) => Some(format!("it publishes {} too", others.join(", "))),
            (false, true) => None,
        };
        if let Some(why) = why {
            let note = format!("{why}; drop it by hand if nobody else reads it");
            return Ok(Item::new(Fate::Kept, thing, Some(note)));
        }
        let quoted = quote_identifier(name);
        self.owned("PUBLICATION", &quoted, &row, 2);
        Ok(Item::new(Fate::Drop, thing, None))
    }

    /// Published by name, or with their whole schema, which Postgres 15 brought.
    async fn others(&self, wanted: &PostgresConfig) -> Result<Vec<String>, TeardownError> {
        let name = &wanted.publication;
        let sql = "SELECT n.nspname::text, c.relname::text FROM pg_publication_rel
              JOIN pg_publication p ON p.oid = prpubid JOIN pg_class c ON c.oid = prrelid
              JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE p.pubname = $1 ORDER BY 1, 2";
        let rows = self.client.query(sql, &[name]).await.map_err(failed)?;
        let tables = rows.iter().map(|row| TableName { schema: row.get(0), name: row.get(1) });
        let others =
            tables.filter(|table| !wanted.tables.iter().any(|wanted| wanted.name == *table));
        let mut others: Vec<String> = others.map(|table| table.to_string()).collect();
        let sql = "SELECT to_regclass('pg_publication_namespace') IS NOT NULL";
        if self.client.query_one(sql, &[]).await.map_err(failed)?.get(0) {
            let sql = "SELECT n.nspname::text FROM pg_publication_namespace
                  JOIN pg_publication p ON p.oid = pnpubid JOIN pg_namespace n ON n.oid = pnnspid
                WHERE p.pubname = $1 ORDER BY 1";
            let rows = self.client.query(sql, &[name]).await.map_err(failed)?;
            others.extend(rows.iter().map(|row| format!("schema {}", row.get::<_, &str>(0))));
        }
        Ok(others)
    }

    async fn schema(&mut self) -> Result<(Thing, Item), TeardownError> {
        let thing = "schema postrider";
        let sql = "SELECT pg_has_role(nspowner, 'USAGE'), pg_get_userbyid(nspowner)::text,
                (SELECT string_agg(format('%I.%I', nspname, relname), ', ') FROM pg_class
                  WHERE relnamespace = n.oid AND relkind IN ('r', 'p') AND NOT relispartition),
                (SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p
                  WHERE p.pronamespace = n.oid)
            FROM pg_namespace n WHERE nspname = 'postrider'";
        let Some(row) = self.client.query_opt(sql, &[]).await.map_err(failed)? else {
            let item = Item::new(Fate::Missing, thing, None);
            return Ok((Thing::Schema { tables: None, functions: None }, item));
        };
        self.owned("SCHEMA", "\"postrider\"", &row, 0);
        let note = self.undelivered().await?;
        let schema = Thing::Schema { tables: row.get(2), functions: row.get(3) };
        Ok((schema, Item::new(Fate::Drop, thing, note)))
    }

    /// What goes with the schema and never reached Kafka.
    async fn undelivered(&self) -> Result<Option<String>, TeardownError> {
        let readable = "SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class c
            WHERE relnamespace = to_regnamespace('postrider') AND relname = 'undelivered'";
        let row = self.client.query_opt(readable, &[]).await.map_err(failed)?;
        if !row.is_some_and(|row| row.get(0)) {
            return Ok(None);
        }
        let sql = "SELECT count(*) FROM postrider.undelivered
            WHERE status IN ('pending', 'processing', 'dead')";
        let row = self.client.query_one(sql, &[]).await.map_err(failed)?;
        let count: i64 = row.get(0);
        Ok((count > 0).then(|| format!("with {count} events that could not be published")))
    }

    async fn table(&mut self, table: &TableName, asked: bool) -> Result<Item, TeardownError> {
        let thing = format!("table {table}");
        let sql = "SELECT pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner)::text,
                relkind IN ('r', 'p')
            FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
            WHERE nspname = $1 AND relname = $2";
        let row =
            self.client.query_opt(sql, &[&table.schema, &table.name]).await.map_err(failed)?;
        let Some(row) = row else { return Ok(Item::new(Fate::Missing, thing, None)) };
        let kept = |note: &str| Ok(Item::new(Fate::Kept, thing.clone(), Some(note.to_owned())));
        if !asked {
            return kept("--tables drops it");
        }
        if !row.get::<_, bool>(2) {
            return kept("it is no table");
        }
        self.owned("TABLE", &table.quoted(), &row, 0);
        Ok(Item::new(Fate::Drop, thing, Some("with its rows".to_owned())))
    }

    /// Only an owner can drop; two columns of the row, from `first` on, say whether and who it is.
    fn owned(&mut self, kind: &str, name: &str, row: &Row, first: usize) {
        if !row.get::<_, bool>(first) {
            self.lacking.push(ownership(kind, name, row.get(first + 1), &self.role, "to drop it"));
        }
    }
}

fn failed(error: tokio_postgres::Error) -> TeardownError {
    TeardownError::statement("show what is there", &error)
}
