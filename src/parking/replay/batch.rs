//! One transaction of a replay.

use std::collections::{HashMap, HashSet};

use tokio::time::Instant;
use tokio_postgres::{Client, Transaction};

use super::{BATCH_TIMEOUT, Request};
use crate::clock;
use crate::config::OutboxTable;
use crate::parking::dead::CommandError;
use crate::parking::references::load_values;
use crate::parking::sender::{RowResult, SendOptions, SendResults, send_rows};
use crate::parking::store::{self, DeadPosition, DeadRow, FailedAgain, ParkedRow};
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::Broken;

/// What publishing a batch takes.
pub(super) struct BatchPublisher<'a> {
    pub(super) slot: &'a str,
    pub(super) tables: &'a [OutboxTable],
    pub(super) request: &'a Request,
    /// A connection outside the transaction.
    pub(super) values: &'a Client,
    /// Keys of rows that are published but perhaps not marked yet, by row id.
    pub(super) published_unmarked: &'a HashMap<i64, String>,
}

/// What became of the rows of a batch.
#[derive(Default)]
pub(super) struct PublishedBatch {
    rows: Vec<ParkedRow>,
    results: Vec<RowResult>,
    /// Keys of those that were delivered, by row id.
    pub(super) keys: HashMap<i64, String>,
    /// What prevented sending, if anything did.
    pub(super) interrupted_by: Option<Broken>,
    /// Whether the sink is ready for the next batch.
    pub(super) is_sink_ready: bool,
    /// How many rows were not sent, by reason; see `Summary`.
    pub(super) busy: usize,
    pub(super) unconfirmed: usize,
    pub(super) unknown: usize,
    pub(super) held: usize,
}

impl PublishedBatch {
    fn each(&self) -> impl Iterator<Item = (&ParkedRow, &RowResult)> {
        self.rows.iter().zip(&self.results)
    }

    pub(super) fn delivered(&self) -> Vec<&ParkedRow> {
        let delivered = self.each().filter(|(_, result)| **result == RowResult::Delivered);
        delivered.map(|(row, _)| row).collect()
    }

    pub(super) fn failed(&self) -> Vec<FailedAgain<'_>> {
        let mut failed = Vec::new();
        for (row, result) in self.each() {
            if let RowResult::Retry(refusal) | RowResult::Reject(refusal) = result {
                failed.push(FailedAgain { row, refusal });
            }
        }
        failed
    }

    /// Rows that were not tried because of an earlier failure, a stop, or a connection error.
    pub(super) fn not_tried(&self) -> HashSet<i64> {
        let not_tried = self.each().filter(|(_, result)| result.is_untried());
        not_tried.map(|(row, _)| row.id).collect()
    }
}

impl BatchPublisher<'_> {
    /// Locks the rows, and publishes those that may be published now. `confirmed` was read before
    /// the transaction began: see [`store::confirmed_lsn`].
    pub(super) async fn publish<S: Sink>(
        &self,
        tx: &Transaction<'_>,
        confirmed: Option<u64>,
        positions: &[DeadPosition],
        sink: &mut S,
        shutdown: &mut Shutdown,
    ) -> Result<PublishedBatch, CommandError> {
        let failed = |error| CommandError::statement("take dead events", &error);
        let ids: Vec<i64> = positions.iter().map(|position| position.id).collect();
        let taken = store::lock_dead(tx, &ids).await.map_err(failed)?;
        let mut published = PublishedBatch { is_sink_ready: true, ..PublishedBatch::default() };
        published.busy = ids.len() - taken.len().min(ids.len());
        let ready = self.ready(tx, taken, confirmed, &mut published).await.map_err(failed)?;
        let mut keys = Vec::with_capacity(ready.len());
        for DeadRow { row, key_id, .. } in ready {
            published.rows.push(row);
            keys.push(key_id);
        }
        if published.rows.is_empty() {
            return Ok(published);
        }
        let unreadable = load_values(self.values, &mut published.rows, self.tables).await;
        let unreadable =
            unreadable.map_err(|error| CommandError::statement("read a value", &error))?;
        let ahead = clock::server_ahead_micros(tx, clock::QUESTION).await.map_err(failed)?;
        let options = SendOptions {
            server_ahead_micros: ahead.unwrap_or_default(),
            replayed: true,
            waits_for_topics: true,
            timestamp: self.request.timestamp,
            keep_order: !self.request.allow_reorder,
            deadline: Instant::now() + BATCH_TIMEOUT,
        };
        let SendResults { mut results, interrupted_by, is_sink_ready } =
            send_rows(sink, &published.rows, &options, shutdown).await;
        unreadable.explain(&published.rows, &mut results);
        for ((row, result), key_id) in published.rows.iter().zip(&results).zip(keys) {
            if *result == RowResult::Delivered {
                published.keys.extend(key_id.map(|key_id| (row.id, key_id)));
            }
        }
        published.results = results;
        published.interrupted_by = interrupted_by;
        published.is_sink_ready = is_sink_ready;
        Ok(published)
    }

    /// The rows that may be published now.
    async fn ready(
        &self,
        tx: &Transaction<'_>,
        mut rows: Vec<DeadRow>,
        confirmed: Option<u64>,
        published: &mut PublishedBatch,
    ) -> Result<Vec<DeadRow>, tokio_postgres::Error> {
        let taken = rows.len();
        rows.retain(|row| confirmed.is_none_or(|confirmed| row.commit_lsn < confirmed));
        published.unconfirmed = taken - rows.len();
        if !self.request.allow_reorder {
            let before = rows.len();
            if !store::are_takeovers_known(tx, self.slot).await? {
                rows.retain(|row| row.key_id.is_none());
            }
            published.unknown += before - rows.len();
            let before = rows.len();
            let front = store::front_rows(tx, self.slot, &rows, self.published_unmarked).await?;
            rows.retain(|row| row.key_id.is_none() || front.contains(&row.row.id));
            published.held = before - rows.len();
        }
        Ok(rows)
    }
}

/// Records what became of the rows. If this fails, what was published stays `dead` and is published
/// again by the next replay.
pub(super) async fn mark(
    tx: Transaction<'_>,
    slot: &str,
    published: &PublishedBatch,
) -> Result<(), CommandError> {
    let failed = |error| CommandError::statement("mark published events as delivered", &error);
    let (delivered, refused) = (published.delivered(), published.failed());
    if delivered.is_empty() && refused.is_empty() {
        return tx.rollback().await.map_err(failed);
    }
    store::settle_replayed(&tx, slot, &delivered, &refused).await.map_err(failed)?;
    tx.commit().await.map_err(failed)
}
