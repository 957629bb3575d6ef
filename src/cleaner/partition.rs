//! Whole partitions: detached without blocking writers, then dropped.
//!
//! A range partition on `created_at` whose range is older than the retention, and all of whose rows
//! are certainly done, is noted, detached and dropped. Other transactions run between these steps.
//! If the relay is killed in between, its note stays, and the next relay continues from it. Rows
//! that were inserted late, before the detaching was complete, are waited for like all others.

use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error};

use super::outbox::{Leaf, Outbox, Whole};
use super::pick::Terms;
use super::{Cleaner, coverage, mark, sql};
use crate::config::TableName;
use crate::postgres::log_end;
use postrider_core::cleaning::lateness::Served;
use postrider_core::cleaning::rule::Asker;
use postrider_core::lsn::Lsn;

/// Detaching waits for all transactions that use the table, and takes no lock that a writer would
/// have to wait for. What has not ended by then is finished in a later round.
const PATIENCE: &str = "SET lock_timeout = '60s'";
const HASTE: &str = "SET lock_timeout = '1s'";

/// A partition that is to be dropped.
struct Note {
    leaf: Leaf,
    /// Its name when it was noted.
    name: String,
    /// Whether it can be dropped, needs to be finalized, or was never detached.
    state: State,
    floor: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Gone,
    /// Another table has its OID, or it was never seen as a partition of the outbox here.
    Unknown,
    Attached,
    Half,
    Detached,
}

impl Cleaner {
    /// Detaches a partition if all of its rows may be deleted; returns whether it did.
    pub(super) async fn detach(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
        asker: Asker<'_>,
    ) -> Result<bool, Error> {
        let Some(parent) = &leaf.parent else { return Ok(false) };
        let Some(terms) = self.terms(client, outbox, leaf, asker).await? else {
            return Ok(false);
        };
        let served = mark::served(client, outbox, asker, terms.wanted.retention_seconds).await?;
        if rows_of_done(client, outbox, leaf, &terms, served, Lsn::ZERO).await?.is_none() {
            return Ok(false);
        }
        let limit = log_end(client).await?;
        if !self.wait(client, outbox, &terms, limit).await?
            || rows_of_done(client, outbox, leaf, &terms, served, limit).await?.is_none()
        {
            return Ok(false);
        }
        // The note comes first: if this relay is killed in between, the next one finds it.
        let name = leaf.name.to_string();
        if !witness(client, outbox, leaf, asker, &terms.wanted.floor).await? {
            self.told.warn(&name, "it is not a partition of the outbox any more");
            return Ok(false);
        }
        tracing::info!(table = outbox.name, partition = name, "detaching an old partition");
        let (parent, partition) = (parent.quoted(), leaf.name.quoted());
        let sql = format!("ALTER TABLE {parent} DETACH PARTITION {partition} CONCURRENTLY");
        self.cursors.remove(&leaf.oid);
        patiently(client, &sql).await?;
        Ok(true)
    }

    /// Continues with partitions whose detaching has begun, here or by an earlier relay.
    pub(super) async fn finish_detached(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        asker: Asker<'_>,
    ) -> Result<(), Error> {
        for note in notes(client, outbox, asker).await? {
            match note.state {
                State::Gone | State::Attached => strike(client, note.leaf.oid).await?,
                State::Unknown => {
                    tracing::warn!(
                        table = outbox.name,
                        noted = note.name,
                        found = note.leaf.name.to_string(),
                        oid = note.leaf.oid,
                        "postrider.detached has a note about a partition that this database does not \
                         have: it comes from another server or database, or the partition was renamed. \
                         The note is deleted and no table is dropped; if the partition is there under \
                         another name, drop it yourself"
                    );
                    strike(client, note.leaf.oid).await?;
                }
                State::Half => {
                    let Some(parent) = &note.leaf.parent else { continue };
                    let (parent, partition) = (parent.quoted(), note.leaf.name.quoted());
                    let sql = format!("ALTER TABLE {parent} DETACH PARTITION {partition} FINALIZE");
                    patiently(client, &sql).await?;
                    self.drop_detached(client, outbox, &note, asker).await?;
                }
                State::Detached => self.drop_detached(client, outbox, &note, asker).await?,
            }
        }
        Ok(())
    }

    /// Drops a detached partition once all of its rows are done.
    async fn drop_detached(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        note: &Note,
        asker: Asker<'_>,
    ) -> Result<(), Error> {
        // The floor from when it was a partition, which it no longer is.
        let Some(first) = outbox.leaves.first() else { return Ok(()) };
        let Some(mut terms) = self.terms(client, outbox, first, asker).await? else {
            return Ok(());
        };
        terms.wanted.floor = note.floor.clone();
        let name = note.leaf.name.to_string();
        let held = |cleaner: &mut Cleaner| {
            let reason = "a detached partition has rows that are not certainly done, or whose \
                          events wait in postrider.undelivered; it is dropped once all are done";
            cleaner.told.warn(&name, reason);
        };
        let served = mark::served(client, outbox, asker, terms.wanted.retention_seconds).await?;
        let leaf = &note.leaf;
        let Some(rows) = rows_of_done(client, outbox, leaf, &terms, served, Lsn::ZERO).await?
        else {
            held(self);
            return Ok(());
        };
        let limit = log_end(client).await?;
        if !self.wait(client, outbox, &terms, limit).await? {
            return Ok(());
        }
        client.batch_execute("BEGIN").await?;
        let dropped = drop_if_done(client, outbox, leaf, &terms, served, limit, rows).await;
        let is_dropped = matches!(dropped, Ok(true));
        client.batch_execute(if is_dropped { "COMMIT" } else { "ROLLBACK" }).await?;
        match dropped? {
            true => {
                self.metrics.cleaned(&outbox.name, rows.unsigned_abs());
                tracing::info!(table = outbox.name, partition = name, rows, "dropped a partition");
            }
            false => held(self),
        }
        Ok(())
    }
}

/// Nobody can add rows once the table is locked.
async fn drop_if_done(
    client: &Client,
    outbox: &Outbox,
    leaf: &Leaf,
    terms: &Terms<'_>,
    served: Served,
    limit: Lsn,
    rows: i64,
) -> Result<bool, Error> {
    // The table that has the name now is the one that was noted.
    const IS_IT: &str = "SELECT to_regclass($1)::oid IS NOT DISTINCT FROM $2::oid";
    let table = leaf.name.quoted();
    client.batch_execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
    if !client.query_one(IS_IT, &[&table, &leaf.oid]).await?.try_get::<_, bool>(0)?
        || rows_of_done(client, outbox, leaf, terms, served, limit).await? != Some(rows)
    {
        return Ok(false);
    }
    client.batch_execute(&format!("DROP TABLE {table}")).await?;
    strike(client, leaf.oid).await?;
    Ok(true)
}

/// The number of the leaf's rows, if all of them may be deleted and every slot has passed `limit`.
async fn rows_of_done(
    client: &Client,
    outbox: &Outbox,
    leaf: &Leaf,
    terms: &Terms<'_>,
    served: Served,
    limit: Lsn,
) -> Result<Option<i64>, Error> {
    let id = &outbox.id;
    let sql = format!(
        "SELECT CASE WHEN ({passed}) = $4::text \
                      AND coalesce(bool_and(coalesce({old} AND {served} AND {certain}, false) \
                                            AND t.{id} IS NOT NULL), true) \
                      AND NOT EXISTS (SELECT FROM {leaf} WHERE {parked}) \
                     THEN count(*) END FROM {leaf}",
        passed = coverage::marks_of_passed!(),
        old = sql::is_old(outbox, "$5::float8"),
        certain = sql::is_certain(outbox, "$6::text", "$7::text"),
        served = sql::is_served("$8::text", "$9::text"),
        parked = sql::is_parked(outbox, "$5::float8"),
        leaf = sql::only(leaf),
    );
    let limit = PgLsn::from(limit.bytes());
    let Terms { asker, standing, wanted } = terms;
    let (published_before, prompt_since) =
        (served.published_before.to_string(), served.prompt_since.to_string());
    let values: [&(dyn ToSql + Sync); 9] = [
        &outbox.family,
        &asker.slot,
        &limit,
        &standing.marks,
        &wanted.retention_seconds,
        &wanted.since,
        &wanted.floor,
        &published_before,
        &prompt_since,
    ];
    client.query_one(&sql, &values).await?.try_get(0)
}

async fn patiently(client: &Client, sql: &str) -> Result<(), Error> {
    client.batch_execute(PATIENCE).await?;
    let done = client.batch_execute(sql).await;
    client.batch_execute(HASTE).await?;
    done
}

async fn strike(client: &Client, leaf: u32) -> Result<(), Error> {
    client.execute("DELETE FROM postrider.detached WHERE leaf = $1", &[&leaf]).await?;
    Ok(())
}

/// Notes the partition; returns whether it is one of the outbox's, which a trigger checks.
async fn witness(
    client: &Client,
    outbox: &Outbox,
    leaf: &Leaf,
    asker: Asker<'_>,
    floor: &str,
) -> Result<bool, Error> {
    const NOTE: &str = "INSERT INTO postrider.detached (leaf, outbox, name, floor, system_identifier) \
        SELECT $1, $2, $3, $4::text::timestamptz, system_identifier \
          FROM postrider.progress WHERE slot = $5 \
        ON CONFLICT (leaf) DO NOTHING RETURNING partition_name IS NOT NULL";
    let name = leaf.name.to_string();
    let values: [&(dyn ToSql + Sync); 5] = [&leaf.oid, &outbox.name, &name, &floor, &asker.slot];
    client.query_opt(NOTE, &values).await?.map_or(Ok(false), |row| row.try_get(0))
}

/// Partitions whose detaching has begun. An OID proves nothing: in a restored database it can
/// belong to any table.
async fn notes(client: &Client, outbox: &Outbox, asker: Asker<'_>) -> Result<Vec<Note>, Error> {
    const SQL: &str = "SELECT d.leaf, d.floor::text, n.nspname::text, c.relname::text, \
               pn.nspname::text, pc.relname::text, h.inhdetachpending, d.name, \
               coalesce(d.partition_name = format('%I.%I', n.nspname, c.relname) \
                        AND c.relkind = 'r' AND d.database = b.oid \
                        AND d.system_identifier = o.system_identifier, false) \
          FROM postrider.detached d LEFT JOIN pg_class c ON c.oid = d.leaf \
          LEFT JOIN pg_namespace n ON n.oid = c.relnamespace \
          LEFT JOIN pg_inherits h ON h.inhrelid = c.oid \
          LEFT JOIN pg_class pc ON pc.oid = h.inhparent \
          LEFT JOIN pg_namespace pn ON pn.oid = pc.relnamespace \
          LEFT JOIN pg_database b ON b.datname = current_database() \
          LEFT JOIN postrider.progress o ON o.slot = $2 \
         WHERE d.outbox = $1 ORDER BY d.noted_at";
    let table = |schema: Option<String>, name: Option<String>| match (schema, name) {
        (Some(schema), Some(name)) => Some(TableName { schema, name }),
        _ => None,
    };
    let read = |row: &tokio_postgres::Row| {
        let name = table(row.try_get(2)?, row.try_get(3)?);
        let state = match (&name, row.try_get(6)?, row.try_get(8)?) {
            (None, _, _) => State::Gone,
            (_, _, false) => State::Unknown,
            (_, None, true) => State::Detached,
            (_, Some(true), true) => State::Half,
            (_, Some(false), true) => State::Attached,
        };
        Ok(Note {
            leaf: Leaf {
                oid: row.try_get(0)?,
                name: name.unwrap_or(TableName { schema: String::new(), name: String::new() }),
                parent: table(row.try_get(4)?, row.try_get(5)?),
                has_number_index: false,
                whole: Whole::Past,
                is_half_detached: false,
            },
            name: row.try_get(7)?,
            state,
            floor: row.try_get(1)?,
        })
    };
    client.query(SQL, &[&outbox.name, &asker.slot]).await?.iter().map(read).collect()
}
