//! Changes in the side table: events that have arrived there, and keys that have become free.

use std::time::{Duration, Instant};

use super::{Parking, ParkingEvent};
use crate::ops::Vitals;
use crate::parking::notices::log_parked;
use crate::parking::poller::KeyDelivered;
use crate::parking::writer::WriterEvent;
use crate::session_end::{RestartReason, SessionEnd};
use postrider_core::delivery::{Reason, Ticket};
use postrider_core::order::OrderKey;

/// Keys checked with one query.
const KEYS_ASKED_MAX: usize = 1000;
/// How long the next event of a key waits for the side table to finish those before it.
const HANDOVER: Duration = Duration::from_millis(500);

/// An event that is committed in the side table.
pub(crate) struct Arrived {
    pub(crate) ticket: Ticket,
    pub(crate) table: usize,
    pub(crate) topic: String,
    /// It is dead, and was not there before.
    pub(crate) is_new_dead: bool,
}

impl Parking<'_> {
    /// Applies a change; returns the events that have arrived with it.
    pub(crate) fn apply(&mut self, event: ParkingEvent) -> Result<Vec<Arrived>, SessionEnd> {
        match event {
            ParkingEvent::Writer(WriterEvent::Parked(tickets)) => return Ok(self.arrived(tickets)),
            ParkingEvent::Writer(WriterEvent::Free(keys)) => {
                keys.iter().for_each(|key| {
                    self.keys.free(key);
                });
                self.check_finished();
            }
            ParkingEvent::Writer(WriterEvent::Failed(text)) => {
                return Err(SessionEnd::restart(RestartReason::Postgres, text));
            }
            ParkingEvent::Poller(KeyDelivered { key, live }) => {
                if live <= self.handover_rows_max {
                    self.keys.hand_over(&key, Instant::now() + HANDOVER);
                }
                if live == 0 && self.keys.is_held(&key) {
                    self.finished.insert(key);
                    self.check_finished();
                }
            }
        }
        Ok(Vec::new())
    }

    fn arrived(&mut self, tickets: Vec<(Ticket, bool)>) -> Vec<Arrived> {
        let (mut is_due, now) = (false, Instant::now());
        let mut notices = Vec::with_capacity(tickets.len());
        let mut arrived = Vec::with_capacity(tickets.len());
        for (ticket, is_new) in tickets {
            let Some(event) = self.being_parked.remove(&ticket) else { continue };
            let notice = event.notice;
            if notice.reason == Reason::Malformed {
                self.malformed.arrived(now);
            }
            is_due |= !notice.is_dead;
            if let Some(key) = &event.key {
                self.keys.parked(key);
            }
            arrived.push(Arrived {
                ticket,
                table: event.table,
                topic: notice.topic.clone(),
                is_new_dead: notice.is_dead && is_new,
            });
            if is_new {
                notices.push(notice);
            }
        }
        log_parked(self.notices.add(notices, now));
        // The poller has nothing to do with dead events.
        if is_due {
            self.kick.notify_one();
        }
        arrived
    }

    /// Asks which of the keys are free that the poller has finished. One question at a time.
    fn check_finished(&mut self) {
        if self.writer.is_asking() || self.finished.is_empty() {
            return;
        }
        let keys: Vec<OrderKey> = self.finished.iter().take(KEYS_ASKED_MAX).cloned().collect();
        keys.iter().for_each(|key| {
            self.finished.remove(key);
        });
        self.writer.find_free(keys);
    }

    /// To be called at least once a second. Checks now and then what others have changed.
    pub(crate) fn tick(&mut self, vitals: &Vitals, now: Instant) -> Result<(), SessionEnd> {
        if now.saturating_duration_since(self.checked_at) < self.check_every {
            return Ok(());
        }
        if vitals.takeovers() > self.takeovers {
            let text = "parked events of another slot were taken over; reading the keys again";
            return Err(SessionEnd::restart(RestartReason::Keys, text));
        }
        if self.keeps_order && self.keys.is_outdated() {
            let text = "few enough keys are held again to track each one; reading them";
            return Err(SessionEnd::restart(RestartReason::Keys, text));
        }
        self.checked_at = now;
        log_parked(self.notices.tick(now));
        self.apply_count(vitals);
        self.breaker.remember_parked(now);
        if !self.writer.is_asking() {
            let keys = self.keys.next_batch(KEYS_ASKED_MAX);
            if !keys.is_empty() {
                self.writer.find_free(keys);
            }
        }
        Ok(())
    }

    /// Applies the poller's newest count of the side table, once.
    fn apply_count(&mut self, vitals: &Vitals) {
        let Some((holdings, began)) = vitals.side_table() else { return };
        if began <= self.counted_at {
            return;
        }
        self.counted_at = began;
        let was_open = self.breaker.opened().is_some();
        self.breaker.counted(holdings.bytes, began);
        self.malformed.counted(holdings.malformed, began);
        if was_open && self.breaker.opened().is_none() {
            tracing::info!("the circuit breaker has closed; continuing");
        }
    }
}
