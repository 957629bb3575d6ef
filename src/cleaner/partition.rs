//! Whole partitions: detached without blocking writers, then dropped.
//!
//! A range partition on `created_at` whose range is older than the retention, and all of whose rows
//! are certainly done, is noted, detached and dropped. Other transactions run between these steps.
//! If the relay is killed in between, its note stays, and the next relay continues from it. Rows
//! that were inserted late, before the detaching was complete, are waited for like all others.

use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error};

use super::detached::{self, DetachNote, DetachState};
use super::rules::CleaningRules;
use super::table::{CleanableTable, Leaf};
use super::{Cleaner, coverage, mark, sql};
use crate::postgres::log_end;
use postrider_core::cleaning::lateness::RetentionBounds;
use postrider_core::cleaning::rule::OwnSlot;
use postrider_core::lsn::Lsn;

/// Detaching waits for all transactions that use the table, and takes no lock that a writer would
/// have to wait for. What has not ended by then is finished in a later round.
const LONG_LOCK_TIMEOUT: &str = "SET lock_timeout = '60s'";
const SHORT_LOCK_TIMEOUT: &str = "SET lock_timeout = '1s'";

impl Cleaner {
    /// Detaches a partition if all of its rows may be deleted; returns whether it did.
    pub(super) async fn detach(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        leaf: &Leaf,
        own: OwnSlot<'_>,
    ) -> Result<bool, Error> {
        let Some(parent) = &leaf.parent else { return Ok(false) };
        let Some(rules) = self.rules(client, outbox, leaf, own).await? else {
            return Ok(false);
        };
        let bounds =
            mark::retention_bounds(client, outbox, own, rules.filter.retention_seconds).await?;
        if count_if_all_done(client, outbox, leaf, &rules, bounds, Lsn::ZERO).await?.is_none() {
            return Ok(false);
        }
        let limit = log_end(client).await?;
        if !self.wait_for_slots(client, outbox, &rules, limit).await?
            || count_if_all_done(client, outbox, leaf, &rules, bounds, limit).await?.is_none()
        {
            return Ok(false);
        }
        // The note comes first: if this relay is killed in between, the next one finds it.
        let name = leaf.name.to_string();
        if !detached::record(client, outbox, leaf, own, &rules.filter.uncertain_until).await? {
            self.warn(&name, "it is not a partition of the outbox any more");
            return Ok(false);
        }
        tracing::info!(table = outbox.name, partition = name, "detaching an old partition");
        let (parent, partition) = (parent.quoted(), leaf.name.quoted());
        let sql = format!("ALTER TABLE {parent} DETACH PARTITION {partition} CONCURRENTLY");
        self.cursors.remove(&leaf.oid);
        with_long_lock_timeout(client, &sql).await?;
        Ok(true)
    }

    /// Continues with partitions whose detaching has begun, here or by an earlier relay.
    pub(super) async fn finish_detached(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        own: OwnSlot<'_>,
    ) -> Result<(), Error> {
        for note in detached::load(client, outbox, own).await? {
            match note.state {
                DetachState::Gone | DetachState::Attached => {
                    detached::delete(client, note.leaf.oid).await?
                }
                DetachState::Unknown => {
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
                    detached::delete(client, note.leaf.oid).await?;
                }
                DetachState::Pending => {
                    let Some(parent) = &note.leaf.parent else { continue };
                    let (parent, partition) = (parent.quoted(), note.leaf.name.quoted());
                    let sql = format!("ALTER TABLE {parent} DETACH PARTITION {partition} FINALIZE");
                    with_long_lock_timeout(client, &sql).await?;
                    self.drop_detached(client, outbox, &note, own).await?;
                }
                DetachState::Detached => self.drop_detached(client, outbox, &note, own).await?,
            }
        }
        Ok(())
    }

    /// Drops a detached partition once all of its rows are done.
    async fn drop_detached(
        &mut self,
        client: &Client,
        outbox: &CleanableTable,
        note: &DetachNote,
        own: OwnSlot<'_>,
    ) -> Result<(), Error> {
        // As it was noted while this was a partition.
        let Some(first) = outbox.leaves.first() else { return Ok(()) };
        let Some(mut rules) = self.rules(client, outbox, first, own).await? else {
            return Ok(());
        };
        rules.filter.uncertain_until = note.uncertain_until.clone();
        let name = note.leaf.name.to_string();
        let warn_not_dropped = |cleaner: &mut Cleaner| {
            let reason = "a detached partition has rows that are not certainly done, or whose \
                          events wait in postrider.undelivered; it is dropped once all are done";
            cleaner.warn(&name, reason);
        };
        let bounds =
            mark::retention_bounds(client, outbox, own, rules.filter.retention_seconds).await?;
        let leaf = &note.leaf;
        let Some(rows) = count_if_all_done(client, outbox, leaf, &rules, bounds, Lsn::ZERO).await?
        else {
            warn_not_dropped(self);
            return Ok(());
        };
        let limit = log_end(client).await?;
        if !self.wait_for_slots(client, outbox, &rules, limit).await? {
            return Ok(());
        }
        client.batch_execute("BEGIN").await?;
        let dropped = drop_if_done(client, outbox, leaf, &rules, bounds, limit, rows).await;
        let is_dropped = matches!(dropped, Ok(true));
        client.batch_execute(if is_dropped { "COMMIT" } else { "ROLLBACK" }).await?;
        if dropped? {
            self.metrics.cleaned(&outbox.name, rows.unsigned_abs());
            tracing::info!(table = outbox.name, partition = name, rows, "dropped a partition");
        } else {
            warn_not_dropped(self)
        }
        Ok(())
    }
}

/// Nobody can add rows once the table is locked.
async fn drop_if_done(
    client: &Client,
    outbox: &CleanableTable,
    leaf: &Leaf,
    rules: &CleaningRules<'_>,
    bounds: RetentionBounds,
    limit: Lsn,
    rows: i64,
) -> Result<bool, Error> {
    // The table that has the name now is the one that was noted.
    const IS_NOTED_TABLE: &str = "SELECT to_regclass($1)::oid IS NOT DISTINCT FROM $2::oid";
    let table = leaf.name.quoted();
    client.batch_execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
    if !client.query_one(IS_NOTED_TABLE, &[&table, &leaf.oid]).await?.try_get::<_, bool>(0)?
        || count_if_all_done(client, outbox, leaf, rules, bounds, limit).await? != Some(rows)
    {
        return Ok(false);
    }
    client.batch_execute(&format!("DROP TABLE {table}")).await?;
    detached::delete(client, leaf.oid).await?;
    Ok(true)
}

/// The number of the leaf's rows, if all of them may be deleted and every slot has passed `limit`.
async fn count_if_all_done(
    client: &Client,
    outbox: &CleanableTable,
    leaf: &Leaf,
    rules: &CleaningRules<'_>,
    bounds: RetentionBounds,
    limit: Lsn,
) -> Result<Option<i64>, Error> {
    let id = &outbox.id;
    let sql = format!(
        "SELECT CASE WHEN ({passed}) = $4::text \
                      AND coalesce(bool_and(\
                              coalesce({old} AND {retention_passed} AND {certain}, false) \
                              AND t.{id} IS NOT NULL), true) \
                      AND NOT EXISTS (SELECT FROM {leaf} WHERE {parked}) \
                     THEN count(*) END FROM {leaf}",
        passed = coverage::fingerprint_of_passed!(),
        old = sql::old_condition(outbox, "$5::float8"),
        certain = sql::certain_condition(outbox, "$6::text", "$7::text"),
        retention_passed = sql::retention_passed("$8::text", "$9::text"),
        parked = sql::parked_condition(outbox, "$5::float8"),
        leaf = sql::only(leaf),
    );
    let limit = PgLsn::from(limit.bytes());
    let CleaningRules { own, fingerprint, filter } = rules;
    let (published_before, prompt_since) =
        (bounds.published_before.to_string(), bounds.prompt_since.to_string());
    let values: [&(dyn ToSql + Sync); 9] = [
        &outbox.family,
        &own.slot,
        &limit,
        &fingerprint.text,
        &filter.retention_seconds,
        &filter.since,
        &filter.uncertain_until,
        &published_before,
        &prompt_since,
    ];
    client.query_one(&sql, &values).await?.try_get(0)
}

async fn with_long_lock_timeout(client: &Client, sql: &str) -> Result<(), Error> {
    client.batch_execute(LONG_LOCK_TIMEOUT).await?;
    let done = client.batch_execute(sql).await;
    client.batch_execute(SHORT_LOCK_TIMEOUT).await?;
    done
}
