//! Picks rows of a leaf, and deletes them if nothing has changed since.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, Statement};

use super::batch::{Batch, Part};
use super::rules::CleaningRules;
use super::scan::{Cursor, RowScanner};
use super::table::{CleanableTable, Leaf};
use super::{coverage, mark, sql};
use crate::postgres::log_end;
use postrider_core::lsn::Lsn;

/// Pages read for one pick: many can consist of rows that are kept.
const PAGES_MAX: usize = 2_000;
/// Timers can't measure shorter pauses.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Picks rows of a leaf, and deletes them.
pub struct Picker {
    scanner: RowScanner,
    deletion: Deletion,
    rest: Rest,
}

/// Rows that may be deleted once every slot has passed `limit`.
#[derive(Debug)]
pub struct Picked {
    /// In the order they were found.
    pub batches: Vec<Batch>,
    /// Read after the last of them.
    pub limit: Lsn,
}

impl Picker {
    /// Begins where the last one left off.
    pub async fn begin(
        client: &Client,
        outbox: &CleanableTable,
        leaf: &Leaf,
        rules: &CleaningRules<'_>,
        from: Option<Cursor>,
    ) -> Result<Self, Error> {
        let filter = rules.filter.clone();
        let retention = filter.retention_seconds;
        let bounds = mark::retention_bounds(client, outbox, rules.own, retention).await?;
        let scanner = RowScanner::begin(client, outbox, leaf, filter, bounds, from).await?;
        let deletion = Deletion::prepare(client, outbox, leaf).await?;
        Ok(Picker { scanner, deletion, rest: Rest::default() })
    }

    /// The next rows; none if all were read for now.
    pub async fn pick(
        &mut self,
        client: &Client,
        rows_max: usize,
    ) -> Result<Option<Picked>, Error> {
        let mut batches = Vec::new();
        let mut rows = 0;
        for _ in 0..PAGES_MAX {
            if self.scanner.is_finished() || rows >= rows_max {
                break;
            }
            let began = Instant::now();
            if let Some(batch) = self.scanner.next(client).await? {
                rows += batch.rows();
                batches.push(batch);
            }
            self.rest.half_as_long_as_since(began).await;
        }
        if batches.is_empty() {
            return Ok(None);
        }
        // Read after the rows were seen: the commits that made them visible lie before it.
        let limit = log_end(client).await?;
        Ok(Some(Picked { batches, limit }))
    }

    /// Deletes a batch, part by part; returns the number of deleted rows.
    pub async fn delete(
        &mut self,
        client: &Client,
        batch: &Batch,
        rules: &CleaningRules<'_>,
        limit: Lsn,
    ) -> Result<u64, Error> {
        let mut deleted = 0;
        for part in batch.parts() {
            let began = Instant::now();
            deleted += self.deletion.delete(client, part, rules, limit).await?;
            self.rest.half_as_long_as_since(began).await;
        }
        Ok(deleted)
    }

    /// Where the next one should begin.
    pub fn next_start(&self) -> Cursor {
        self.scanner.next_start()
    }
}

/// The statement that deletes rows of one leaf.
struct Deletion {
    statement: Statement,
    family: Vec<u32>,
}

impl Deletion {
    /// The statement is prepared once.
    ///
    /// A batch names rows by place and transaction: the very versions that were picked. Everything
    /// that made them certain is checked again in this statement's snapshot, which is taken after
    /// all slots had passed: an event that was parked meanwhile is seen.
    async fn prepare(client: &Client, outbox: &CleanableTable, leaf: &Leaf) -> Result<Self, Error> {
        let sql = format!(
            "DELETE FROM {leaf} USING unnest($5::tid[], $6::xid[]) AS c(place, writer) \
              WHERE t.ctid = c.place AND t.xmin = c.writer \
                AND ({passed}) = $4::text AND {old} AND {certain} AND NOT {parked}",
            leaf = sql::only(leaf),
            passed = coverage::fingerprint_of_passed!(),
            old = sql::old_condition(outbox, "$7::float8"),
            certain = sql::certain_condition(outbox, "$8::text", "$9::text"),
            parked = sql::parked_condition(outbox, "$7::float8"),
        );
        Ok(Deletion { statement: client.prepare(&sql).await?, family: outbox.family.clone() })
    }

    /// Deletes a part of a batch in a transaction; returns the number of deleted rows.
    async fn delete(
        &self,
        client: &Client,
        part: Part<'_>,
        rules: &CleaningRules<'_>,
        limit: Lsn,
    ) -> Result<u64, Error> {
        let CleaningRules { own, fingerprint, filter } = rules;
        let limit = PgLsn::from(limit.bytes());
        let values: [&(dyn ToSql + Sync); 9] = [
            &self.family,
            &own.slot,
            &limit,
            &fingerprint.text,
            &part.ctids,
            &part.xmins,
            &filter.retention_seconds,
            &filter.since,
            &filter.uncertain_until,
        ];
        client.execute(&self.statement, &values).await
    }
}

/// The cleaner rests for a third of the time, so that it does not delay events.
#[derive(Debug, Default)]
struct Rest {
    owed: Duration,
}

impl Rest {
    /// Rests for half of the time since `began`. What is too short for a pause is added to the
    /// next.
    async fn half_as_long_as_since(&mut self, began: Instant) {
        self.owed += began.elapsed() / 2;
        if self.owed >= PAUSE_MIN {
            let resting = Instant::now();
            tokio::time::sleep(self.owed).await;
            self.owed = self.owed.saturating_sub(resting.elapsed());
        }
    }
}
