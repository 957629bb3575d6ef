//! One transaction of a replay.

use std::collections::{HashMap, HashSet};

use tokio::time::Instant;
use tokio_postgres::{Client, Transaction};

use super::{BATCH_TIMEOUT, Request};
use crate::clock;
use crate::config::OutboxTable;
use crate::parking::dead::CommandError;
use crate::parking::sender::{Dispatched, Options, Sent, dispatch};
use crate::parking::store::{self, DeadRow, FailedAgain, ParkedRow, Place};
use crate::postgres::describe;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::Broken;
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::parking::Completeness;

/// What a batch needs to know.
pub(super) struct Batch<'a> {
    pub(super) slot: &'a str,
    pub(super) tables: &'a [OutboxTable],
    pub(super) request: &'a Request,
    /// A connection outside the transaction.
    pub(super) values: &'a Client,
    /// Keys of rows that are published but perhaps not marked yet, by row id.
    pub(super) passed: &'a HashMap<i64, String>,
}

/// What became of the rows of a batch.
#[derive(Default)]
pub(super) struct Published {
    rows: Vec<ParkedRow>,
    results: Vec<Sent>,
    /// Keys of those that were delivered, by row id.
    pub(super) passed: HashMap<i64, String>,
    pub(super) trouble: Option<Broken>,
    /// Whether the sink is ready for the next batch.
    pub(super) open: bool,
    /// Numbers of rows that were not sent, by reason.
    pub(super) busy: usize,
    pub(super) unconfirmed: usize,
    pub(super) unknown: usize,
    pub(super) held: usize,
}

impl Published {
    fn each(&self) -> impl Iterator<Item = (&ParkedRow, &Sent)> {
        self.rows.iter().zip(&self.results)
    }

    pub(super) fn delivered(&self) -> Vec<&ParkedRow> {
        let delivered = self.each().filter(|(_, sent)| **sent == Sent::Delivered);
        delivered.map(|(row, _)| row).collect()
    }

    pub(super) fn failed(&self) -> Vec<FailedAgain<'_>> {
        let mut failed = Vec::new();
        for (row, sent) in self.each() {
            if let Sent::Retry(refusal) | Sent::Reject(refusal) = sent {
                failed.push(FailedAgain { row, refusal });
            }
        }
        failed
    }

    /// Rows that were not tried because of an earlier failure, a stop, or the trouble.
    pub(super) fn not_tried(&self) -> HashSet<i64> {
        let not_tried = self.each().filter(|(_, sent)| **sent == Sent::NotTried);
        not_tried.map(|(row, _)| row.id).collect()
    }
}

impl Batch<'_> {
    /// Locks the rows, and publishes those that may be published now. `confirmed` was read before
    /// the transaction began: see store::confirmed.
    pub(super) async fn publish<S: Sink>(
        &self,
        tx: &Transaction<'_>,
        confirmed: Option<u64>,
        places: &[Place],
        sink: &mut S,
        shutdown: &mut Shutdown,
    ) -> Result<Published, CommandError> {
        let failed = |error| CommandError::statement("take dead events", &error);
        let ids: Vec<i64> = places.iter().map(|place| place.id).collect();
        let taken = store::take_dead(tx, &ids).await.map_err(failed)?;
        let mut published = Published { open: true, ..Published::default() };
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
        let lost = self.add_values(&mut published.rows).await?;
        let ahead = clock::server_ahead_micros(tx, clock::QUESTION).await.map_err(failed)?;
        let options = Options {
            server_ahead_micros: ahead.unwrap_or_default(),
            replayed: true,
            patient: true,
            timestamp: self.request.timestamp.into(),
            keep_order: !self.request.allow_reorder,
            deadline: Instant::now() + BATCH_TIMEOUT,
        };
        let Dispatched { mut results, trouble, open } =
            dispatch(sink, &published.rows, &options, shutdown).await;
        for ((row, sent), key_id) in published.rows.iter().zip(&mut results).zip(keys) {
            match (sent, lost.get(&row.id)) {
                (Sent::Reject(refusal), Some(why)) => refusal.clone_from(why),
                (Sent::Delivered, _) => {
                    published.passed.extend(key_id.map(|key_id| (row.id, key_id)));
                }
                _ => {}
            }
        }
        published.results = results;
        published.trouble = trouble;
        published.open = open;
        Ok(published)
    }

    /// The rows that may be published now.
    async fn ready(
        &self,
        tx: &Transaction<'_>,
        mut rows: Vec<DeadRow>,
        confirmed: Option<u64>,
        published: &mut Published,
    ) -> Result<Vec<DeadRow>, tokio_postgres::Error> {
        let taken = rows.len();
        rows.retain(|row| confirmed.is_none_or(|confirmed| row.commit_lsn < confirmed));
        published.unconfirmed = taken - rows.len();
        if !self.request.allow_reorder {
            let before = rows.len();
            if !store::knows_takeovers(tx, self.slot).await? {
                rows.retain(|row| row.key_id.is_none());
            }
            published.unknown += before - rows.len();
            let before = rows.len();
            let front = store::front_rows(tx, self.slot, &rows, self.passed).await?;
            rows.retain(|row| row.key_id.is_none() || front.contains(&row.row.id));
            published.held = before - rows.len();
        }
        Ok(rows)
    }

    /// Fetches values that stayed in the outbox; returns why some are unavailable. Their rows are
    /// refused by `dispatch`, which also holds back the rows after them.
    async fn add_values(
        &self,
        rows: &mut [ParkedRow],
    ) -> Result<HashMap<i64, Refusal>, CommandError> {
        let mut lost = HashMap::new();
        for row in rows.iter_mut().filter(|row| row.form == Completeness::Reference) {
            match store::reference_value(self.values, row, self.tables).await {
                Ok(Ok(value)) => {
                    row.value = value;
                    row.form = Completeness::Whole;
                }
                Ok(Err(refusal)) => drop(lost.insert(row.id, refusal)),
                // The server has answered, about this row.
                Err(error) if error.as_db_error().is_some() => {
                    let detail = format!(
                        "the event's value can't be read from {}: {}",
                        row.source_table,
                        describe(&error)
                    );
                    lost.insert(row.id, Refusal { reason: Reason::VALUE_MISSING, detail });
                }
                Err(error) => return Err(CommandError::statement("read a value", &error)),
            }
        }
        Ok(lost)
    }
}

/// Records what became of the rows. If this fails, what was published stays `dead` and is published
/// again by the next replay.
pub(super) async fn mark(
    tx: Transaction<'_>,
    slot: &str,
    published: &Published,
) -> Result<(), CommandError> {
    let failed = |error| CommandError::statement("mark published events as delivered", &error);
    let (delivered, refused) = (published.delivered(), published.failed());
    if delivered.is_empty() && refused.is_empty() {
        return tx.rollback().await.map_err(failed);
    }
    store::settle_replayed(&tx, slot, &delivered, &refused).await.map_err(failed)?;
    tx.commit().await.map_err(failed)
}
