//! Whole partitions: detached without getting into the way of writers, then dropped.
//!
//! A partition by ranges of `created_at` whose range is older than the retention, and all of whose
//! rows are certainly done, is noted, detached and dropped. Between these steps there are
//! transactions of others; who is killed in between leaves a note, and whoever comes next goes on.
//! Rows that came in late, before the detaching was complete, are waited for like all others.

use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error};

use super::outbox::{Leaf, Outbox, Whole};
use super::pick::Terms;
use super::rule::Asker;
use super::{Cleaner, coverage, sql};
use crate::config::TableName;
use crate::lsn::Lsn;

/// Detaching waits for all transactions that use the table, and takes no lock that a writer would
/// have to wait for. What is not over by then is finished in a later round.
const PATIENCE: &str = "SET lock_timeout = '60s'";
const HASTE: &str = "SET lock_timeout = '1s'";

/// A partition on its way out.
struct Note {
    leaf: Leaf,
    /// It can be dropped, needs to be finalized, or never was detached.
    state: State,
    floor: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Gone,
    Attached,
    Half,
    Detached,
}

impl Cleaner {
    /// Detaches a partition if all of its rows may go; says whether it did.
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
        if rows_of_done(client, outbox, leaf, &terms, Lsn::ZERO).await?.is_none() {
            return Ok(false);
        }
        let limit = coverage::log_end(client).await?;
        if !self.wait(client, outbox, &terms, limit).await?
            || rows_of_done(client, outbox, leaf, &terms, limit).await?.is_none()
        {
            return Ok(false);
        }
        // First the note: who is killed in between is followed by somebody who finds it.
        const NOTE: &str = "INSERT INTO postrider.detached (leaf, outbox, name, floor) \
            VALUES ($1, $2, $3, $4::text::timestamptz) ON CONFLICT (leaf) DO NOTHING";
        let name = leaf.name.to_string();
        client.execute(NOTE, &[&leaf.oid, &outbox.name, &name, &terms.wanted.floor]).await?;
        tracing::info!(table = outbox.name, partition = name, "detaching an old partition");
        let (parent, partition) = (parent.quoted(), leaf.name.quoted());
        let sql = format!("ALTER TABLE {parent} DETACH PARTITION {partition} CONCURRENTLY");
        self.cursors.remove(&leaf.oid);
        patiently(client, &sql).await?;
        Ok(true)
    }

    /// Goes on with partitions that were begun with, here or by somebody before.
    pub(super) async fn finish_detached(
        &mut self,
        client: &Client,
        outbox: &Outbox,
        asker: Asker<'_>,
    ) -> Result<(), Error> {
        for note in notes(client, outbox).await? {
            match note.state {
                State::Gone | State::Attached => strike(client, note.leaf.oid).await?,
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
        // The floor of its time as a partition: it is none any more.
        let Some(first) = outbox.leaves.first() else { return Ok(()) };
        let Some(mut terms) = self.terms(client, outbox, first, asker).await? else {
            return Ok(());
        };
        terms.wanted.floor = note.floor.clone();
        let name = note.leaf.name.to_string();
        let held = |cleaner: &mut Cleaner| {
            let reason = "a detached partition has rows that are not certainly done, or wait in \
                          postrider.undelivered; it is dropped once they are";
            cleaner.told.warn(&name, reason);
        };
        let Some(rows) = rows_of_done(client, outbox, &note.leaf, &terms, Lsn::ZERO).await? else {
            held(self);
            return Ok(());
        };
        let limit = coverage::log_end(client).await?;
        if !self.wait(client, outbox, &terms, limit).await? {
            return Ok(());
        }
        client.batch_execute("BEGIN").await?;
        let dropped = drop_if_done(client, outbox, &note.leaf, &terms, limit, rows).await;
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
    limit: Lsn,
    rows: i64,
) -> Result<bool, Error> {
    let table = leaf.name.quoted();
    client.batch_execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
    if rows_of_done(client, outbox, leaf, terms, limit).await? != Some(rows) {
        return Ok(false);
    }
    client.batch_execute(&format!("DROP TABLE {table}")).await?;
    strike(client, leaf.oid).await?;
    Ok(true)
}

/// How many rows the leaf has, if all of them may go and, with a limit, every slot has passed it.
async fn rows_of_done(
    client: &Client,
    outbox: &Outbox,
    leaf: &Leaf,
    terms: &Terms<'_>,
    limit: Lsn,
) -> Result<Option<i64>, Error> {
    let id = &outbox.id;
    let sql = format!(
        "SELECT CASE WHEN ({passed}) = $4::text \
                      AND coalesce(bool_and(coalesce({old} AND {certain}, false) \
                                            AND t.{id} IS NOT NULL), true) \
                      AND NOT EXISTS (SELECT FROM {leaf} WHERE {parked}) \
                     THEN count(*) END FROM {leaf}",
        passed = coverage::marks_of_passed!(),
        old = sql::is_old("$5::float8"),
        certain = sql::is_certain("$6::text", "$7::text"),
        parked = sql::is_parked(outbox),
        leaf = sql::only(leaf),
    );
    let limit = PgLsn::from(limit.bytes());
    let Terms { asker, standing, wanted } = terms;
    let values: [&(dyn ToSql + Sync); 7] = [
        &outbox.family,
        &asker.slot,
        &limit,
        &standing.marks,
        &wanted.retention_seconds,
        &wanted.since,
        &wanted.floor,
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

async fn notes(client: &Client, outbox: &Outbox) -> Result<Vec<Note>, Error> {
    const SQL: &str = "SELECT d.leaf, d.floor::text, n.nspname::text, c.relname::text, \
               pn.nspname::text, pc.relname::text, h.inhdetachpending \
          FROM postrider.detached d LEFT JOIN pg_class c ON c.oid = d.leaf \
          LEFT JOIN pg_namespace n ON n.oid = c.relnamespace \
          LEFT JOIN pg_inherits h ON h.inhrelid = c.oid \
          LEFT JOIN pg_class pc ON pc.oid = h.inhparent \
          LEFT JOIN pg_namespace pn ON pn.oid = pc.relnamespace \
         WHERE d.outbox = $1 ORDER BY d.noted_at";
    let table = |schema: Option<String>, name: Option<String>| match (schema, name) {
        (Some(schema), Some(name)) => Some(TableName { schema, name }),
        _ => None,
    };
    let read = |row: &tokio_postgres::Row| {
        let name = table(row.try_get(2)?, row.try_get(3)?);
        let state = match (&name, row.try_get(6)?) {
            (None, _) => State::Gone,
            (_, None) => State::Detached,
            (_, Some(true)) => State::Half,
            (_, Some(false)) => State::Attached,
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
            state,
            floor: row.try_get(1)?,
        })
    };
    client.query(SQL, &[&outbox.name]).await?.iter().map(read).collect()
}
