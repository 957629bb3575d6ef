//! The rules by which rows of a leaf may be deleted.

use tokio_postgres::{Client, Error};

use super::table::{CleanableTable, Leaf};
use super::{coverage, uncertain_until};
use crate::config::CleanerConfig;
use postrider_core::cleaning::rule::{CoverageFingerprint, Decision, OwnSlot, Uncertain, decide};
use postrider_core::lsn::Lsn;

/// They hold when rows are picked, and must still hold when these are deleted.
#[derive(Debug, Clone)]
pub struct CleaningRules<'a> {
    /// The slot of this relay.
    pub own: OwnSlot<'a>,
    /// The slots that cover the table.
    pub fingerprint: CoverageFingerprint,
    /// The conditions on a row.
    pub filter: RowFilter,
}

/// Conditions on a row. In addition, it must not be parked.
#[derive(Debug, Clone)]
pub struct RowFilter {
    /// Older than this by the database's clock.
    pub retention_seconds: f64,
    /// Written by this transaction or a later one.
    pub since: String,
    /// Created after this.
    pub uncertain_until: String,
    /// Rows per batch.
    pub batch: i64,
}

/// Why nothing may be picked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// An operator has to act.
    #[error(transparent)]
    Uncertain(#[from] Uncertain),
    /// Transactions that are older than a slot are still open.
    #[error("transactions from before the slot are still open")]
    NotYet,
}

impl<'a> CleaningRules<'a> {
    /// The rules for a leaf.
    pub async fn find(
        client: &Client,
        outbox: &CleanableTable,
        leaf: &Leaf,
        own: OwnSlot<'a>,
        config: &CleanerConfig,
    ) -> Result<Result<Self, NotAllowed>, Error> {
        let coverage = coverage::load(client, &outbox.family, own.slot).await?;
        let fingerprint = match CoverageFingerprint::of(&coverage, own) {
            Ok(fingerprint) => fingerprint,
            Err(why) => return Ok(Err(why.into())),
        };
        let found = uncertain_until::find(client, outbox, leaf, own.slot, &fingerprint).await?;
        let Some(uncertain_until) = found else { return Ok(Err(NotAllowed::NotYet)) };
        let filter = RowFilter {
            retention_seconds: config.retention.as_secs_f64(),
            since: fingerprint.since.to_string(),
            uncertain_until,
            batch: i64::try_from(config.batch).unwrap_or(i64::MAX),
        };
        Ok(Ok(CleaningRules { own, fingerprint, filter }))
    }

    /// Decides about rows that were seen before the log's end was read as `limit`.
    pub async fn decide(
        &self,
        client: &Client,
        outbox: &CleanableTable,
        limit: Lsn,
    ) -> Result<Decision, Error> {
        let coverage = coverage::load(client, &outbox.family, self.own.slot).await?;
        Ok(decide(&self.fingerprint, &coverage, self.own, limit))
    }
}
