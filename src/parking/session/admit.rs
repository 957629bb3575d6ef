//! Events on their way into the side table: which may be parked, and which the breaker holds back.

use std::time::Instant;

use super::Parking;
use crate::parking::notices::log_parked;
use crate::session_end::{RestartReason, SessionEnd};
use postrider_core::delivery::{Class, Reason, Ticket};
use postrider_core::order::OrderKey;
use postrider_core::parking::breaker::{Candidate, Weight};
use postrider_core::parking::notices::{Notice, shown};
use postrider_core::parking::{EventToPark, ParkAs};
use postrider_core::row::Row;

/// What became of an event that was to be parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParkResult {
    /// It is on its way into the side table.
    Started,
    /// It has to be retried: the breaker is open.
    Held,
    /// It is not an event, and enough of its kind are kept.
    Dropped,
}

/// An event on its way into the side table.
pub(super) struct BeingParked {
    pub(super) key: Option<OrderKey>,
    pub(super) table: usize,
    pub(super) notice: Notice,
}

impl Parking<'_> {
    /// Parks an event in flight, or queues it to be retried because the breaker is open.
    pub(crate) fn park(
        &mut self,
        row: &Row<'_>,
        ticket: Ticket,
        class: Class,
        to_park: EventToPark,
        owed_by_broker: usize,
    ) -> Result<ParkResult, SessionEnd> {
        let now = Instant::now();
        let is_malformed = to_park.refusal.reason == Reason::Malformed;
        if is_malformed && self.malformed.is_full() {
            log_parked(self.notices.dropped(now));
            return Ok(ParkResult::Dropped);
        }
        let candidate = Candidate {
            class,
            weight: Weight::of(to_park.refusal.reason),
            bytes: to_park.side_table_bytes() as u64,
            owed: owed_by_broker as u64,
            belongs_to_parked: row.position.commit_lsn <= self.newest_commit,
        };
        if !is_malformed && !self.breaker_admits(&candidate, row, &to_park, now) {
            self.retry_queue.insert(ticket);
            return Ok(ParkResult::Held);
        }
        self.breaker.parked(candidate.bytes, candidate.weight, now);
        if is_malformed {
            self.malformed.parked();
        }
        self.newest_commit = self.newest_commit.max(row.position.commit_lsn);
        let key = to_park.order_key().filter(|_| self.keeps_order);
        if let Some(key) = &key {
            self.keys.hold(key);
        }
        let being_parked = BeingParked { key, table: to_park.table, notice: notice(row, &to_park) };
        self.being_parked.insert(ticket, being_parked);
        let failed = |error| SessionEnd::restart(RestartReason::Postgres, error);
        self.writer.park(ticket, to_park).map_err(failed)?;
        Ok(ParkResult::Started)
    }

    /// Asks the breaker, and logs if that opens or closes it.
    fn breaker_admits(
        &mut self,
        candidate: &Candidate,
        row: &Row<'_>,
        to_park: &EventToPark,
        now: Instant,
    ) -> bool {
        let was_open = self.breaker.opened().is_some();
        let may_park = self.breaker.may_park(candidate, now);
        if !may_park && !was_open {
            tracing::error!(
                table = to_park.source_table,
                id = row.id_for_log(),
                topic = to_park.topic_for_log(),
                reason = to_park.refusal.detail,
                "too many events or bytes can't be published; the circuit breaker has opened: \
                 nothing more is parked, and the position is held until this event can be published"
            );
        }
        if may_park && was_open && self.breaker.opened().is_none() {
            tracing::info!("the circuit breaker has closed; parking events again");
        }
        may_park
    }
}

/// What is logged about an event. One that waits for another is only counted.
fn notice(row: &Row<'_>, to_park: &EventToPark) -> Notice {
    let reason = to_park.refusal.reason;
    let detail = |text: String| if reason == Reason::Blocked { String::new() } else { text };
    Notice {
        table: to_park.source_table.clone(),
        topic: to_park.topic_for_log(),
        reason,
        is_dead: to_park.park_as == ParkAs::Dead,
        row_id: detail(row.id_for_log()),
        tenant: detail(shown(to_park.tenant.as_deref())),
        idempotency_key: detail(shown(to_park.idempotency_key.as_deref())),
        detail: detail(to_park.refusal.detail.clone()),
    }
}
