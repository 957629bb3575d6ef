//! The tables `postrider.backfill` and `postrider.backfill_table`: all SQL on them.

use std::time::Duration;

use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, IsolationLevel, Transaction};

use super::{Job, JobTable, Kind};
use crate::config::TableName;
use crate::progress::{Identity, Trace, are_same, coverage, traces};
use crate::schema::has_backfill;
use postrider_core::lsn::Lsn;

/// How long the holder of a job may be silent before another instance may begin.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Whether the tables have the columns that this version needs.
pub(crate) async fn is_migrated(client: &Client) -> Result<bool, Error> {
    const SQL: &str = "SELECT EXISTS (SELECT FROM pg_attribute \
         WHERE attrelid = 'postrider.backfill_table'::regclass AND attname = 'reached') \
        AND EXISTS (SELECT FROM pg_attribute \
         WHERE attrelid = 'postrider.backfill'::regclass AND attname = 'made_for') \
        AND EXISTS (SELECT FROM pg_attribute \
         WHERE attrelid = 'postrider.progress'::regclass AND attname = 'backfills')";
    client.query_one(SQL, &[]).await?.try_get(0)
}

/// Stores a job if there is neither a slot nor progress; returns whether there is a job now.
pub(super) async fn begin_snapshot(client: &Client, slot: &str) -> Result<bool, Error> {
    const SQL: &str = "INSERT INTO postrider.backfill (slot, kind) SELECT $1::text, 'snapshot' \
         WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1) \
           AND NOT EXISTS (SELECT FROM postrider.progress WHERE slot = $1) \
        ON CONFLICT (slot) DO NOTHING";
    Ok(client.execute(SQL, &[&slot]).await? == 1 || has_backfill(client, slot).await?)
}

/// Stores a job for a slot that was lost: the rows of each table that may be missing.
pub(crate) async fn begin_recovery(
    client: &mut Client,
    slot: &str,
    here: &Identity,
    tables: &[(u32, Option<String>)],
    keeps_slot: bool,
) -> Result<(), Error> {
    const JOB: &str = "INSERT INTO postrider.backfill (slot, kind, system_identifier, keeps_slot) \
        VALUES ($1, 'recover', $2, $3) ON CONFLICT (slot) DO NOTHING";
    const TABLE: &str = "INSERT INTO postrider.backfill_table (slot, outbox, since) \
        VALUES ($1, $2::oid::regclass, $3::text::xid8)";
    let transaction = client.transaction().await?;
    if transaction.execute(JOB, &[&slot, &here.system_identifier, &keeps_slot]).await? == 1 {
        for (outbox, since) in tables {
            transaction.execute(TABLE, &[&slot, outbox, since]).await?;
        }
    }
    transaction.commit().await
}

/// The slot is not kept after all: an operator gives up what only it has. The next attempt creates
/// another one.
pub(crate) async fn give_up_slot(client: &Client, slot: &str) -> Result<(), Error> {
    const SQL: &str =
        "UPDATE postrider.backfill SET keeps_slot = false, made_for = NULL WHERE slot = $1";
    client.execute(SQL, &[&slot]).await?;
    Ok(())
}

/// The job of the slot, with what is stored about each of these tables.
pub(crate) async fn load(
    client: &Client,
    slot: &str,
    tables: &[u32],
) -> Result<Option<Job>, Error> {
    const JOB: &str = "SELECT kind, seen_before::text, keeps_slot, made_for FROM postrider.backfill WHERE slot = $1";
    const TABLES: &str = "SELECT outbox::oid, since::text, rows, is_done, sorted_by, leaves, reached \
          FROM postrider.backfill_table WHERE slot = $1";
    let Some(row) = client.query_opt(JOB, &[&slot]).await? else { return Ok(None) };
    let mut known = Vec::new();
    for row in client.query(TABLES, &[&slot]).await? {
        known.push(JobTable {
            outbox: row.try_get(0)?,
            since: row.try_get(1)?,
            rows: row.try_get(2)?,
            is_done: row.try_get(3)?,
            sorted_by: row.try_get(4)?,
            leaves: row.try_get(5)?,
            reached: row.try_get(6)?,
        });
    }
    let table = |outbox: &u32| {
        let found = known.iter().find(|table| table.outbox == *outbox).cloned();
        found.unwrap_or(JobTable { outbox: *outbox, ..JobTable::default() })
    };
    Ok(Some(Job {
        kind: if row.try_get::<_, &str>(0)? == "recover" { Kind::Recover } else { Kind::Snapshot },
        seen_before: row.try_get(1)?,
        keeps_slot: row.try_get(2)?,
        made_for: row.try_get(3)?,
        tables: tables.iter().map(table).collect(),
    }))
}

/// Takes over a job that may have come here with a copy of another server's database: transaction
/// numbers of that server mean nothing here, so all rows are to be published.
pub(crate) async fn take_over(
    client: &mut Client,
    slot: &str,
    here: &Identity,
) -> Result<(), Error> {
    const TABLES: &str = "DELETE FROM postrider.backfill_table t USING postrider.backfill b \
         WHERE b.slot = $1 AND t.slot = b.slot AND b.system_identifier <> $2";
    const JOB: &str = "UPDATE postrider.backfill SET system_identifier = $2, \
                seen_before = CASE WHEN system_identifier = $2 THEN seen_before END \
          WHERE slot = $1";
    let transaction = client.transaction().await?;
    transaction.execute(TABLES, &[&slot, &here.system_identifier]).await?;
    transaction.execute(JOB, &[&slot, &here.system_identifier]).await?;
    transaction.commit().await
}

/// One attempt. After another one has begun, nothing that this one writes is accepted.
#[derive(Debug, Clone)]
pub struct Attempt {
    slot: String,
    id: String,
    number: u64,
}

impl Attempt {
    /// Begins, unless another holder has the lease. None: another one has it, or there is nothing
    /// to do.
    pub async fn begin(client: &Client, slot: &str, holder: &str) -> Result<Option<Self>, Error> {
        const SQL: &str = "UPDATE postrider.backfill \
                SET attempt = gen_random_uuid(), holder = $2, \
                    held_until = clock_timestamp() + $3 * interval '1 second' \
              WHERE slot = $1 AND (holder = $2 OR held_until IS NULL OR held_until < clock_timestamp()) \
          RETURNING attempt::text";
        let row = client.query_opt(SQL, &[&slot, &holder, &LEASE.as_secs_f64()]).await?;
        row.map(|row| Ok(Attempt { slot: slot.to_owned(), id: row.try_get(0)?, number: 0 }))
            .transpose()
    }

    /// Counts the attempts of the slot, whose progress must be stored. None: another attempt has
    /// begun.
    pub async fn count(&mut self, client: &Client) -> Result<Option<()>, Error> {
        const SQL: &str = "UPDATE postrider.progress p SET backfills = p.backfills + 1 \
              FROM postrider.backfill b \
             WHERE p.slot = $1 AND b.slot = $1 AND b.attempt = $2::text::uuid RETURNING p.backfills";
        let Some(row) = client.query_opt(SQL, &[&self.slot, &self.id]).await? else {
            return Ok(None);
        };
        self.number = row.try_get::<_, i64>(0)?.unsigned_abs();
        Ok(Some(()))
    }

    /// What rows that this attempt reads have instead of the position of a change. No other attempt
    /// of the slot has the same, later ones have higher ones, and all are before every position of
    /// a log.
    pub fn change_lsn(&self) -> Lsn {
        Lsn::new(self.number)
    }

    /// Renews the lease. False: another attempt has begun.
    pub async fn renew(&self, client: &Client) -> Result<bool, Error> {
        const SQL: &str = "UPDATE postrider.backfill \
                SET held_until = clock_timestamp() + $3 * interval '1 second' \
              WHERE slot = $1 AND attempt = $2::text::uuid";
        Ok(client.execute(SQL, &[&self.slot, &self.id, &LEASE.as_secs_f64()]).await? == 1)
    }

    /// Stores what the first attempt can see, and returns what is stored. None: another attempt has
    /// begun.
    pub async fn note_seen(
        &self,
        client: &Client,
        seen_before: &str,
    ) -> Result<Option<String>, Error> {
        const SQL: &str = "UPDATE postrider.backfill b \
                SET seen_before = coalesce(b.seen_before, $3::text::xid8) \
              WHERE slot = $1 AND attempt = $2::text::uuid RETURNING seen_before::text";
        let row = client.query_opt(SQL, &[&self.slot, &self.id, &seen_before]).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    /// The slot is about to be created, after the publication that `made_for` identifies: if the
    /// slot exists, a later attempt keeps it. False: another attempt has begun.
    pub async fn note_made_for(&self, client: &Client, made_for: &str) -> Result<bool, Error> {
        const SQL: &str = "UPDATE postrider.backfill SET made_for = $3 \
             WHERE slot = $1 AND attempt = $2::text::uuid";
        Ok(client.execute(SQL, &[&self.slot, &self.id, &made_for]).await? == 1)
    }

    /// The slot exists, and events without a table can rely on it. False: another attempt has
    /// begun.
    pub async fn keep_slot(&self, client: &Client) -> Result<bool, Error> {
        const SQL: &str = "UPDATE postrider.backfill SET keeps_slot = true \
             WHERE slot = $1 AND attempt = $2::text::uuid";
        Ok(client.execute(SQL, &[&self.slot, &self.id]).await? == 1)
    }

    /// Drops the slot if it exists, so that this attempt can create another one. None: another
    /// attempt has begun, and the slot may belong to it.
    ///
    /// One statement: the row of the job stays locked until the slot is gone, so the next attempt
    /// begins before this or after it, and a process that is frozen can't do it in two parts.
    pub async fn drop_slot(&self, client: &Client) -> Result<Option<()>, Error> {
        const SQL: &str = "WITH mine AS (UPDATE postrider.backfill \
                SET keeps_slot = false, made_for = NULL \
              WHERE slot = $1 AND attempt = $2::text::uuid RETURNING slot) \
            SELECT (SELECT pg_drop_replication_slot(s.slot_name)::text \
                      FROM pg_replication_slots s WHERE s.slot_name = mine.slot) FROM mine";
        Ok(client.query_opt(SQL, &[&self.slot, &self.id]).await?.map(drop))
    }

    /// Stores how far a table is published. False: another attempt has begun.
    pub async fn save(&self, client: &Client, table: &JobTable) -> Result<bool, Error> {
        const SQL: &str = "INSERT INTO postrider.backfill_table AS t \
                (slot, outbox, since, rows, is_done, sorted_by, leaves, reached) \
             SELECT slot, $3::oid::regclass, $4::text::xid8, $5, $6, $7, $8, $9 \
               FROM postrider.backfill WHERE slot = $1 AND attempt = $2::text::uuid \
             ON CONFLICT (slot, outbox) DO UPDATE \
                SET rows = excluded.rows, is_done = excluded.is_done, \
                    sorted_by = excluded.sorted_by, leaves = excluded.leaves, \
                    reached = excluded.reached";
        let JobTable { outbox, since, sorted_by, leaves, reached, rows, is_done } = table;
        let values: [&(dyn ToSql + Sync); 9] =
            [&self.slot, &self.id, outbox, since, rows, is_done, sorted_by, leaves, reached];
        Ok(client.execute(SQL, &values).await? == 1)
    }

    /// All rows are published: the slot's progress begins, and the job ends.
    pub async fn finish(
        &self,
        client: &mut Client,
        end: &Finish<'_>,
    ) -> Result<FinishOutcome, Error> {
        const JOB: &str =
            "DELETE FROM postrider.backfill WHERE slot = $1 AND attempt = $2::text::uuid";
        const PROGRESS: &str = "INSERT INTO postrider.progress AS p \
                (slot, system_identifier, timeline, position, done_before) \
             VALUES ($1, $2, $3, $4, $5::text::xid8) \
             ON CONFLICT (slot) DO UPDATE \
                SET generation = gen_random_uuid(), system_identifier = excluded.system_identifier, \
                    timeline = excluded.timeline, position = excluded.position, \
                    done_before = excluded.done_before, probe_xid = NULL, probe_lsn = NULL, \
                    inside_commit_lsn = NULL, inside_change_lsn = NULL, inside_events = NULL, \
                    inside_depends_on = NULL, \
                    updated_at = clock_timestamp()";
        // All statements must see the same state: what is compared with the beginning is what is
        // promised.
        let transaction =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let transaction = transaction.start().await?;
        if transaction.execute(JOB, &[&self.slot, &self.id]).await? == 0 {
            return Ok(FinishOutcome::Overtaken);
        }
        if !are_same(end.traces, &traces(&transaction, end.publication, end.names).await?) {
            return Ok(FinishOutcome::Lapsed);
        }
        let position = PgLsn::from(end.starts_at.bytes());
        let here = end.here;
        let values: [&(dyn ToSql + Sync); 5] =
            [&self.slot, &here.system_identifier, &here.timeline, &position, &end.seen_before];
        transaction.execute(PROGRESS, &values).await?;
        for table in end.tables {
            self.cover(&transaction, table, end).await?;
        }
        transaction.commit().await?;
        Ok(FinishOutcome::Done)
    }

    /// Rows that were covered before the loss still are; if all rows were published, all are
    /// covered.
    async fn cover(
        &self,
        transaction: &Transaction<'_>,
        table: &JobTable,
        end: &Finish<'_>,
    ) -> Result<(), Error> {
        const BEFORE: &str = "SELECT since::text FROM postrider.coverage \
             WHERE slot = $1 AND outbox::oid = $2";
        // Together with what is known about a table that this one has replaced, or about one whose
        // name is unknown.
        const FORGET: &str = "DELETE FROM postrider.coverage c \
             USING pg_class k, pg_namespace n \
             WHERE c.slot = $1 AND k.oid = $2 AND n.oid = k.relnamespace \
               AND (c.outbox::oid = k.oid \
                    OR c.outbox::oid <> 0 AND c.outbox::oid <> ALL($3::oid[]) \
                       AND ((c.schema_name, c.table_name) = (n.nspname::text, k.relname::text) \
                            OR c.table_name IS NULL AND NOT EXISTS ( \
                                   SELECT FROM pg_class g WHERE g.oid = c.outbox::oid)))";
        const SINCE: &str = "UPDATE postrider.coverage \
                SET since = coalesce($3::text::xid8, '3'), intact_before = $4::text::xid8 \
              WHERE slot = $1 AND outbox::oid = $2";
        let before = transaction.query_opt(BEFORE, &[&self.slot, &table.outbox]).await?;
        let read: Vec<u32> = end.tables.iter().map(|table| table.outbox).collect();
        transaction.execute(FORGET, &[&self.slot, &table.outbox, &read]).await?;
        let before: Option<String> = before.map(|row| row.try_get(0)).transpose()?;
        // If the table has replaced another one, only the rows that were just published are
        // certain.
        let since = table.since.clone().map(|since| before.unwrap_or(since));
        let cover = coverage::cover_statement("$1", "$2", "$3");
        let outbox = [table.outbox];
        transaction.execute(&cover, &[&self.slot, &end.publication, &&outbox[..]]).await?;
        let values: [&(dyn ToSql + Sync); 4] =
            [&self.slot, &table.outbox, &since, &end.seen_before];
        transaction.execute(SINCE, &values).await?;
        Ok(())
    }
}

/// The state in which a job ends.
pub struct Finish<'a> {
    /// The server on which the slot was created.
    pub here: &'a Identity,
    /// Where the slot begins.
    pub starts_at: Lsn,
    /// Transactions before this one had ended when this attempt began to read.
    pub seen_before: &'a str,
    /// The publication of the tables.
    pub publication: &'a str,
    /// The tables.
    pub tables: &'a [JobTable],
    /// Their names.
    pub names: &'a [TableName],
    /// Their entries in the catalogs before the slot was created.
    pub traces: &'a [Trace],
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishOutcome {
    /// The slot takes over.
    Done,
    /// Another attempt has begun.
    Overtaken,
    /// A table was out of the publication meanwhile, or is not the one that was read: rows may be
    /// neither in the snapshot nor in the slot. Nothing is stored.
    Lapsed,
}
