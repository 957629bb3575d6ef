//! The three steps: pick, judge, delete.

use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use super::outbox::{Leaf, Outbox};
use super::pace::Pace;
use super::removal::Removal;
use super::walk::{Batch, Cursor, Walk, Wanted};
use super::{coverage, floor, mark};
use crate::config::CleanerConfig;
use crate::postgres::log_end;
use postrider_core::cleaning::rule::{Asker, Standing, Uncertain, Verdict, judge};
use postrider_core::lsn::Lsn;

/// Pages read for one pick: many can consist of rows that are kept.
const PAGES_MAX: usize = 2_000;

/// The terms under which rows may be picked; they must hold until the rows are deleted.
#[derive(Debug, Clone)]
pub struct Terms<'a> {
    /// The slot of this relay.
    pub asker: Asker<'a>,
    /// The slots that cover the table.
    pub standing: Standing,
    /// The conditions on a row.
    pub wanted: Wanted,
}

/// Why nothing may be picked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTerms {
    /// An operator has to act.
    #[error(transparent)]
    Uncertain(#[from] Uncertain),
    /// Transactions that are older than a slot are still open.
    #[error("transactions from before the slot are still open")]
    NotYet,
}

impl<'a> Terms<'a> {
    /// The terms for a leaf.
    pub async fn find(
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
        asker: Asker<'a>,
        config: &CleanerConfig,
    ) -> Result<Result<Self, NoTerms>, Error> {
        let covers = coverage::load(client, &outbox.family, asker.slot).await?;
        let standing = match Standing::of(&covers, asker) {
            Ok(standing) => standing,
            Err(why) => return Ok(Err(why.into())),
        };
        let Some(floor) = floor::find(client, outbox, leaf, asker.slot, &standing).await? else {
            return Ok(Err(NoTerms::NotYet));
        };
        let wanted = Wanted {
            retention_seconds: config.retention.as_secs_f64(),
            since: standing.since.to_string(),
            floor,
            batch: i64::try_from(config.batch).unwrap_or(i64::MAX),
        };
        Ok(Ok(Terms { asker, standing, wanted }))
    }

    /// Whether rows that were seen before the log's end was read as `limit` are done.
    pub async fn judge(
        &self,
        client: &Client,
        outbox: &Outbox,
        limit: Lsn,
    ) -> Result<Verdict, Error> {
        let covers = coverage::load(client, &outbox.family, self.asker.slot).await?;
        Ok(judge(&self.standing, &covers, self.asker, limit))
    }
}

/// Picks rows of a leaf, and deletes them.
pub struct Picker {
    walk: Walk,
    removal: Removal,
    pace: Pace,
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
        outbox: &Outbox,
        leaf: &Leaf,
        terms: &Terms<'_>,
        from: Option<Cursor>,
    ) -> Result<Self, Error> {
        let wanted = terms.wanted.clone();
        let served = mark::served(client, outbox, terms.asker, wanted.retention_seconds).await?;
        let walk = Walk::begin(client, outbox, leaf, wanted, served, from).await?;
        let removal = Removal::prepare(client, outbox, leaf).await?;
        Ok(Picker { walk, removal, pace: Pace::default() })
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
            if self.walk.is_over() || rows >= rows_max {
                break;
            }
            let began = Instant::now();
            if let Some(batch) = self.walk.next(client).await? {
                rows += batch.rows();
                batches.push(batch);
            }
            self.pace.rest(began).await;
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
        terms: &Terms<'_>,
        limit: Lsn,
    ) -> Result<u64, Error> {
        let Terms { asker, standing, wanted } = terms;
        let mut gone = 0;
        for part in batch.parts() {
            let began = Instant::now();
            gone += self.removal.delete(client, part, wanted, *asker, standing, limit).await?;
            self.pace.rest(began).await;
        }
        Ok(gone)
    }

    /// Where the next one should begin.
    pub fn rest_at(&self) -> Cursor {
        self.walk.skip
    }
}
