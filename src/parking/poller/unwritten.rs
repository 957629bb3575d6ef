//! Results of claimed rows that are not written to the side table yet.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::{Client, Error};

use super::Observer;
use crate::config::{Order, UndeliveredConfig};
use crate::parking::sender::RowResult;
use crate::parking::store::{self, Failure, ParkedRow};
use postrider_core::delivery::Class;
use postrider_core::order::OrderKey;
use postrider_core::parking::backoff;
use postrider_core::parking::notices::{Notice, shown, topic_shown};

/// How long rows rest whose schema registry can't be reached: others must get their turn, although
/// the oldest are claimed first.
const POSTPONED_FOR: Duration = Duration::from_secs(10);

/// Whose rows they are, and what writing depends on.
pub(super) struct WriteOptions<'a> {
    pub(super) slot: &'a str,
    pub(super) owner: &'a str,
    pub(super) order: Order,
    /// Rows of a key are counted up to this.
    pub(super) live_count_max: usize,
}

/// They survive the connection: a row that was sent and not acknowledged would be sent again.
#[derive(Default)]
pub(super) struct UnwrittenResults {
    delivered: Vec<i64>,
    /// The transaction that has acknowledged them, if its COMMIT was not answered.
    unanswered: Option<i64>,
    failures: Vec<Failure>,
    untried: Vec<i64>,
    /// Those that are due again only after a while.
    postponed: Vec<i64>,
    rows: HashMap<i64, LoggedRow>,
    /// Events that have become dead, to be logged.
    died: Vec<Notice>,
    /// Keys of delivered rows, with how many rows of each are not done.
    keys: Vec<(OrderKey, usize)>,
}

/// What log lines and metrics need about a row.
struct LoggedRow {
    table: String,
    topic: String,
    row_id: String,
    tenant: String,
    idempotency_key: String,
    attempts: u32,
    latency_seconds: f64,
    class: Class,
}

impl UnwrittenResults {
    /// Adds results; `random` spreads the pauses.
    pub(super) fn add(
        &mut self,
        rows: &[ParkedRow],
        results: Vec<RowResult>,
        config: &UndeliveredConfig,
        mut random: impl FnMut() -> f64,
    ) {
        for (row, result) in rows.iter().zip(results) {
            let class = match result {
                RowResult::Reject(_) => Class::Rejected,
                _ => Class::Retryable,
            };
            match result {
                RowResult::Delivered => self.delivered.push(row.id),
                RowResult::NotTried => self.untried.push(row.id),
                RowResult::Postponed => self.postponed.push(row.id),
                RowResult::Retry(refusal) | RowResult::Reject(refusal) => {
                    let is_dead = class == Class::Rejected || row.attempts >= config.max_attempts;
                    let (base, max) = (config.backoff_base, config.backoff_max);
                    let delay = backoff::delay(row.attempts, base, max, &mut random);
                    self.failures.push(Failure { id: row.id, refusal, is_dead, delay });
                }
            }
            let logged = LoggedRow {
                table: row.source_table.clone(),
                topic: row.topic.clone(),
                row_id: shown(row.row_id.as_deref()),
                tenant: shown(row.tenant.as_deref()),
                idempotency_key: shown(row.idempotency_key.as_deref()),
                attempts: row.attempts,
                latency_seconds: seconds_since(row.commit_unix_micros),
                class,
            };
            self.rows.insert(row.id, logged);
        }
    }

    /// Writes everything to the side table, delivered rows first. What was written is not written
    /// again.
    pub(super) async fn write(
        &mut self,
        client: &mut Client,
        options: &WriteOptions<'_>,
        observer: &mut impl Observer,
    ) -> Result<(), Error> {
        let WriteOptions { slot, owner, order, live_count_max } = *options;
        let (ids, unanswered) = (&self.delivered, &mut self.unanswered);
        let done = store::acknowledge(client, slot, owner, ids, unanswered, live_count_max).await?;
        if done.ids.len() < self.delivered.len() {
            tracing::warn!(
                events = self.delivered.len() - done.ids.len(),
                "events were delivered after their lease had passed to another instance, which may \
                 deliver them once more"
            );
        }
        for row in done.ids.iter().filter_map(|id| self.rows.get(id)) {
            observer.delivered(&row.table, &row.topic, row.latency_seconds);
        }
        self.delivered.clear();
        self.keys.extend(done.keys);
        let failed = store::fail(client, slot, owner, &self.failures, order).await?;
        for failure in self.failures.drain(..).filter(|failure| failed.contains(&failure.id)) {
            if let Some(row) = self.rows.get(&failure.id) {
                self.died.extend(row.failed(&failure, observer));
            }
        }
        for (ids, delay) in
            [(&mut self.untried, Duration::ZERO), (&mut self.postponed, POSTPONED_FOR)]
        {
            store::release_untried(client, slot, owner, ids, delay, order).await?;
            ids.clear();
        }
        self.rows.clear();
        Ok(())
    }

    /// The events that have become dead since the last call.
    pub(super) fn take_died(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.died)
    }

    /// Keys with rows delivered since the last call, also if something else could not be written.
    pub(super) fn take_keys(&mut self) -> Vec<(OrderKey, usize)> {
        std::mem::take(&mut self.keys)
    }
}

impl LoggedRow {
    /// Reports a failure; returns a notice for the log, if the event is dead.
    fn failed(&self, failure: &Failure, observer: &mut impl Observer) -> Option<Notice> {
        let LoggedRow { table, topic, row_id, attempts, class, .. } = self;
        observer.failed(table, topic, *class);
        let (reason, detail) = (failure.refusal.reason, &failure.refusal.detail);
        if !failure.is_dead {
            tracing::debug!(
                table,
                row_id,
                topic,
                attempts,
                reason = reason.label(),
                detail,
                "still refused"
            );
            return None;
        }
        observer.died(table, topic);
        Some(Notice {
            table: table.clone(),
            topic: topic_shown(topic),
            reason,
            is_dead: true,
            row_id: row_id.clone(),
            tenant: self.tenant.clone(),
            idempotency_key: self.idempotency_key.clone(),
            detail: format!("{detail} (attempt {attempts})"),
        })
    }
}

fn seconds_since(unix_micros: i64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs_f64() - unix_micros as f64 / 1e6).max(0.0)
}
