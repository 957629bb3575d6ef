//! Which of the objects that `migrate` creates exist, and which can be dropped. Those that other
//! relays of the database need are kept.

use bytesize::ByteSize;
use tokio_postgres::{Client, Row};

use super::error::TeardownError;
use super::report::{Fate, Item};
use super::stored::Stored;
use crate::checks::Slot;
use crate::config::{PostgresConfig, TableName, quote_identifier};
use crate::plural::plural;
use crate::rights::Lacking;
use crate::setup::migrate::ownership;

/// What can be dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Slot,
    Publication,
    /// The rows of this slot in schema `postrider`.
    Rows,
    /// The table with this OID in the publication, which stays.
    Entry(u32),
    /// Schema `postrider`, with the quoted names of the tables and functions in it.
    Schema {
        tables: Option<String>,
        functions: Option<String>,
    },
    Table(TableName),
}

/// What exists, and what is stored about this relay and the others.
pub(super) struct Found {
    /// In the order they are dropped.
    pub(super) things: Vec<(Thing, Item)>,
    pub(super) stored: Stored,
}

pub(super) async fn find(
    client: &Client,
    wanted: &PostgresConfig,
    tables: bool,
) -> Result<Found, TeardownError> {
    let row = client.query_one("SELECT current_user::text", &[]).await.map_err(failed)?;
    let (role, mut lacking): (String, _) = (row.get(0), Vec::new());
    let of_slot = slot(client, &wanted.slot).await?;
    let stored = Stored::find(client, &wanted.slot, &role, &mut lacking).await?;
    let mut finder = Finder { client, role, lacking, slot: &wanted.slot, stored };
    let publication = finder.publication(wanted).await?;
    let mut things = vec![(Thing::Slot, of_slot), (Thing::Publication, publication)];
    things.extend(finder.rows());
    // After the rows of this slot: then only promises of other slots name an entry.
    if matches!(things.get(1), Some((Thing::Publication, item)) if item.fate == Fate::Kept) {
        things.extend(finder.entries(wanted).await?);
    }
    things.push(finder.schema().await?);
    for table in &wanted.tables {
        let item = finder.table(&table.name, tables).await?;
        things.push((Thing::Table(table.name.clone()), item));
    }
    if finder.lacking.is_empty() {
        Ok(Found { things, stored: finder.stored })
    } else {
        let role = quote_identifier(&finder.role);
        Err(TeardownError::Privileges { role, lacking: finder.lacking })
    }
}

async fn slot(client: &Client, name: &str) -> Result<Item, TeardownError> {
    let thing = format!("slot {name}");
    let Some(slot) = Slot::look_up(client, name).await.map_err(failed)? else {
        return Ok(Item::new(Fate::Missing, thing, None));
    };
    slot.check_kind(name).map_err(TeardownError::NotOurs)?;
    let sql = "SELECT active_pid,
            (SELECT nullif(application_name, '') FROM pg_stat_activity WHERE pid = active_pid),
            coalesce(pg_current_wal_lsn() - confirmed_flush_lsn, 0)::bigint
        FROM pg_replication_slots WHERE slot_name = $1";
    // It may have been dropped since.
    let Some(row) = client.query_opt(sql, &[&name]).await.map_err(failed)? else {
        return Ok(Item::new(Fate::Missing, thing, None));
    };
    if let Some(pid) = row.get::<_, Option<i32>>(0) {
        // The server shows whose session it is only to the same role and to monitors.
        let reader = row.get::<_, Option<String>>(1).map(|name| format!(" ({name})"));
        let by = format!(" by PID {pid}{}", reader.unwrap_or_default());
        return Err(TeardownError::SlotInUse { slot: name.to_owned(), by });
    }
    let unread = ByteSize(u64::try_from(row.get::<_, i64>(2)).unwrap_or(0));
    let note = format!("{unread} of WAL after its position are not confirmed");
    Ok(Item::new(Fate::Drop, thing, Some(note)))
}

struct Finder<'a> {
    client: &'a Client,
    role: String,
    lacking: Vec<Lacking>,
    slot: &'a str,
    stored: Stored,
}

impl Finder<'_> {
    /// Whether it is dropped depends on who reads through it. Relays of postrider are known; other
    /// readers can't be: a publication of more than our tables may have been created for them.
    async fn publication(&mut self, wanted: &PostgresConfig) -> Result<Item, TeardownError> {
        let name = &wanted.publication;
        let thing = format!("publication {name}");
        let sql = "SELECT puballtables, oid, pg_has_role(pubowner, 'USAGE'),
                pg_get_userbyid(pubowner)::text
            FROM pg_publication WHERE pubname = $1";
        let Some(row) = self.client.query_opt(sql, &[name]).await.map_err(failed)? else {
            return Ok(Item::new(Fate::Missing, thing, None));
        };
        let readers = self.stored.readers(self.client, self.slot, name).await?;
        if !readers.is_empty() {
            let note = format!("{} through it", slots(&readers, "reads", "read"));
            return Ok(Item::new(Fate::Kept, thing, Some(note)));
        }
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

    /// Tables that only this relay reads are removed from a publication that others read. Otherwise
    /// the last relay would find them there, and not know whose they are.
    async fn entries(
        &mut self,
        wanted: &PostgresConfig,
    ) -> Result<Vec<(Thing, Item)>, TeardownError> {
        let name = &wanted.publication;
        if self.stored.readers(self.client, self.slot, name).await?.is_empty() {
            return Ok(Vec::new());
        }
        let tables = self.stored.unshared(self.client, wanted).await?;
        if !tables.is_empty() {
            let sql = "SELECT pg_has_role(pubowner, 'USAGE'), pg_get_userbyid(pubowner)::text
                FROM pg_publication WHERE pubname = $1";
            let row = self.client.query_one(sql, &[name]).await.map_err(failed)?;
            self.owned("PUBLICATION", &quote_identifier(name), &row, 0);
        }
        let entry = |(outbox, table): (u32, TableName)| {
            let thing = format!("table {table} in publication {name}");
            (Thing::Entry(outbox), Item::new(Fate::Drop, thing, None))
        };
        Ok(tables.into_iter().map(entry).collect())
    }

    /// Other tables that are published by name, or schemas (possible since Postgres 15).
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
        let schema = Thing::Schema { tables: row.get(2), functions: row.get(3) };
        let Stored { others, events, claims, .. } = &self.stored;
        if !others.is_empty() {
            let users = slots(others, "uses", "use");
            let note = format!("{users} it; the teardown of the last one drops it");
            return Ok((schema, Item::new(Fate::Kept, thing, Some(note))));
        }
        let mut lost = Vec::new();
        lost.extend(lost_events(*events));
        match claims.unwrap_or_default() {
            0 => {}
            claims => lost.push(format!("{} of the inbox", plural(claims.unsigned_abs(), "claim"))),
        }
        let note = (!lost.is_empty()).then(|| format!("with {}", lost.join(" and ")));
        self.owned("SCHEMA", "\"postrider\"", &row, 0);
        Ok((schema, Item::new(Fate::Drop, thing, note)))
    }

    /// If the schema is kept, the rows of this slot in it are deleted.
    fn rows(&self) -> Option<(Thing, Item)> {
        let thing = format!("rows of slot {} in schema postrider", self.slot);
        let note = lost_events(self.stored.events).map(|events| format!("with {events}"));
        let rows = (Thing::Rows, Item::new(Fate::Drop, thing, note));
        (!self.stored.others.is_empty()).then_some(rows)
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
            return kept("it is not a table");
        }
        let others = self.stored.covering(self.client, self.slot, table).await?;
        if !others.is_empty() {
            return kept(&format!("{} its rows", slots(&others, "publishes", "publish")));
        }
        self.owned("TABLE", &table.quoted(), &row, 0);
        Ok(Item::new(Fate::Drop, thing, Some("with its rows".to_owned())))
    }

    /// Only an owner can drop. The column `first` of the row shows whether the role is one, and the
    /// next column who is.
    fn owned(&mut self, kind: &str, name: &str, row: &Row, first: usize) {
        if !row.get::<_, bool>(first) {
            self.lacking.push(ownership(kind, name, row.get(first + 1), &self.role, "to drop it"));
        }
    }
}

/// `slot b reads`, `slots b and c read`.
fn slots(names: &[String], one: &str, several: &str) -> String {
    match names {
        [name] => format!("slot {name} {one}"),
        [names @ .., last] => format!("slots {} and {last} {several}", names.join(", ")),
        [] => String::new(),
    }
}

/// Events that never reached Kafka, and will be deleted.
fn lost_events(events: i64) -> Option<String> {
    let were = if events == 1 { "was" } else { "were" };
    let events = (events > 0).then(|| plural(events.unsigned_abs(), "event"))?;
    Some(format!("{events} that {were} never published"))
}

pub(super) fn failed(error: tokio_postgres::Error) -> TeardownError {
    TeardownError::statement("show what exists", &error)
}
