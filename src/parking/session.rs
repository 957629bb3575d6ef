//! What a session knows of events that can't be published: which wait in the side table, which keys
//! wait behind them, and which have to be tried again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use super::notices::{Fact, log};
use super::poller::KeyDelivered;
use super::writer::{ParkingEvent, ParkingWriter};
use crate::config::{Config, Order};
use crate::ops::Vitals;
use crate::postgres::Server;
use crate::progress::Identity;
use crate::session_end::{RestartReason, SessionEnd};
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Class, Reason};
use postrider_core::lsn::Lsn;
use postrider_core::parking::breaker::{Breaker, Candidate, Cause, Weight};
use postrider_core::parking::keys::{HeldKeys, KeyGate};
use postrider_core::parking::malformed::Malformed;
use postrider_core::parking::notices::{Notice, Notices, shown};
use postrider_core::parking::{EventToPark, OrderKey, ParkAs};
use postrider_core::row::Row;

/// Keys looked at in one question.
const KEYS_ASKED_MAX: usize = 1000;
/// How long the next event of a key waits for the side table to be done with those before it.
const HANDOVER: Duration = Duration::from_millis(500);

/// An event on its way into the side table.
pub(crate) struct BeingParked {
    key: Option<OrderKey>,
    pub(crate) table: usize,
    pub(crate) is_dead: bool,
    pub(crate) notice: Notice,
}

/// What became of an event that was to be parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParkResult {
    /// It is on its way into the side table.
    Started,
    /// It has to be tried again: the breaker is open.
    Held,
    /// It is not an event, and enough of its kind are kept.
    Dropped,
}

/// What the side table's news mean for the session.
#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) events: Vec<(Ticket, BeingParked)>,
}

/// The parking half of a session.
pub(crate) struct Parking<'a> {
    writer: ParkingWriter,
    /// Whether events wait for parked ones that they keep their order with.
    keeps_order: bool,
    keys: HeldKeys,
    breaker: &'a mut Breaker,
    notices: &'a mut Notices,
    malformed: Malformed,
    key_events: &'a mut mpsc::Receiver<KeyDelivered>,
    kick: Arc<Notify>,
    /// How many rows of a key the poller can finish at once.
    handover_rows_max: usize,
    check_every: Duration,
    checked_at: Instant,
    /// Held keys that the poller seems to be done with, to be asked about.
    finished: HashSet<OrderKey>,
    /// How often events of another slot had been taken over when the keys were read.
    takeovers: i64,
    /// The newest commit with a parked event.
    newest_commit: Lsn,
    /// When the last count began of what the side table holds; each is news once.
    counted_at: Instant,
    being_parked: HashMap<Ticket, BeingParked>,
    /// Events in flight that have to be tried again, in order. Nothing is read while there are any.
    retry_queue: BTreeSet<Ticket>,
    /// The one that is being tried while the breaker is open.
    breaker_probe: Option<Ticket>,
}

/// What the thread for our own tables lends a session for parking.
pub(crate) struct PollerLink {
    pub(crate) runtime: Handle,
    pub(crate) key_events: mpsc::Receiver<KeyDelivered>,
    /// Wakes the poller.
    pub(crate) kick: Arc<Notify>,
}

impl<'a> Parking<'a> {
    /// Reads what the side table holds. Waits for Postgres.
    pub(crate) async fn open(
        config: &Config,
        server: &Server,
        here: &Identity,
        poller: &'a mut PollerLink,
        breaker: &'a mut Breaker,
        notices: &'a mut Notices,
    ) -> Result<Parking<'a>, SessionEnd> {
        let undelivered = &config.undelivered;
        let in_flight = config.limits.in_flight_events.max();
        let slot = &config.postgres.slot;
        let opening =
            ParkingWriter::open(&poller.runtime, server, here, slot, undelivered, in_flight);
        let (writer, holdings) = opening.await?;
        breaker.set_live_bytes(holdings.live.bytes);
        breaker.mark(Instant::now());
        Ok(Parking {
            writer,
            keeps_order: undelivered.order != Order::Continue,
            keys: holdings.keys,
            breaker,
            notices,
            malformed: Malformed::new(holdings.live.malformed),
            key_events: &mut poller.key_events,
            kick: Arc::clone(&poller.kick),
            handover_rows_max: undelivered.batch,
            check_every: undelivered.poll_interval,
            checked_at: Instant::now(),
            finished: HashSet::new(),
            takeovers: holdings.takeovers,
            newest_commit: holdings.live.newest_commit,
            counted_at: Instant::now(),
            being_parked: HashMap::new(),
            retry_queue: BTreeSet::new(),
            breaker_probe: None,
        })
    }

    /// How often events of another slot had been taken over when the keys were read.
    pub(crate) fn takeovers(&self) -> i64 {
        self.takeovers
    }

    /// How many events are on their way into the side table.
    pub(crate) fn being_parked_len(&self) -> usize {
        self.being_parked.len()
    }

    /// How many events in flight have to be tried again. Nothing is read while there are any.
    pub(crate) fn retry_len(&self) -> usize {
        self.retry_queue.len()
    }

    pub(crate) fn retry_later(&mut self, ticket: Ticket) {
        self.retry_queue.insert(ticket);
    }

    pub(crate) fn retried(&mut self, ticket: Ticket) {
        self.retry_queue.remove(&ticket);
    }

    /// Events were published.
    pub(crate) fn published(&mut self, events: u64) {
        self.breaker.published(events, Instant::now());
    }

    /// An event was not published. If it was the probe, another one shows whether the breaker can close.
    pub(crate) fn probe_failed(&mut self, ticket: Ticket) {
        self.breaker_probe = self.breaker_probe.filter(|probe| *probe != ticket);
    }
    /// Whether the event of this row may go.
    pub(crate) fn gate(
        &self,
        topic: &str,
        ordering_key: Option<&str>,
        partition: Option<i32>,
    ) -> KeyGate {
        if !self.keeps_order || self.keys.is_empty() {
            return KeyGate::Open;
        }
        self.keys.turn(topic, ordering_key, partition, Instant::now())
    }

    /// Parks an event in flight, or notes that it has to wait because the breaker is open.
    pub(crate) fn park(
        &mut self,
        row: &Row<'_>,
        ticket: Ticket,
        class: Class,
        to_park: EventToPark,
        owed_by_broker: usize,
    ) -> Result<ParkResult, SessionEnd> {
        let now = Instant::now();
        let is_malformed = to_park.refusal.reason == Reason::MALFORMED;
        if is_malformed && self.malformed.is_full() {
            log(Fact::Parked, self.notices.dropped(now));
            return Ok(ParkResult::Dropped);
        }
        let key = to_park.order_key().filter(|_| self.keeps_order);
        let was_open = self.breaker.is_open().is_some();
        let candidate = Candidate {
            class,
            weight: Weight::of(to_park.refusal.reason),
            bytes: to_park.side_table_bytes() as u64,
            owed: owed_by_broker as u64,
            belongs_to_parked: row.position.commit_lsn <= self.newest_commit,
        };
        if !is_malformed && !self.breaker.may_park(&candidate, now) {
            if !was_open {
                self.tell_open(row, &to_park);
            }
            self.retry_queue.insert(ticket);
            return Ok(ParkResult::Held);
        }
        if was_open && self.breaker.is_open().is_none() {
            tracing::info!("the circuit breaker has closed; parking events again");
        }
        self.breaker.parked(candidate.bytes, candidate.weight, now);
        if is_malformed {
            self.malformed.parked();
        }
        self.newest_commit = self.newest_commit.max(row.position.commit_lsn);
        if let Some(key) = &key {
            self.keys.hold(key);
        }
        let is_dead = to_park.fate == ParkAs::Dead;
        let note =
            BeingParked { key, table: to_park.table, is_dead, notice: notice(row, &to_park) };
        self.being_parked.insert(ticket, note);
        let failed = |error| SessionEnd::restart(RestartReason::Postgres, error);
        self.writer.park(ticket, to_park).map_err(failed)?;
        Ok(ParkResult::Started)
    }

    fn tell_open(&self, row: &Row<'_>, to_park: &EventToPark) {
        tracing::error!(
            table = to_park.source_table,
            id = row.id_for_people(),
            topic = row.topic_for_people(),
            reason = to_park.refusal.detail,
            "too much can't be published; the circuit breaker has opened: nothing more is parked and \
             the position is held until this event can be published"
        );
    }

    /// While the breaker is open, an event that was taken after all shows whether it can close.
    pub(crate) fn watch(&mut self, ticket: Ticket) {
        if self.breaker.is_open().is_some() && self.breaker_probe.is_none() {
            self.breaker_probe = Some(ticket);
        }
    }

    /// The probe was published.
    pub(crate) fn probed(&mut self, ticket: Ticket) {
        if self.breaker_probe == Some(ticket) {
            self.breaker_probe = None;
            if self.breaker.is_open().is_some() {
                self.breaker.close();
                tracing::info!("the circuit breaker has closed; going on");
            }
        }
    }

    /// The event to be tried again now, if there is one.
    pub(crate) fn next_retry(&self) -> Option<Ticket> {
        let first = *self.retry_queue.first()?;
        let wait = self.breaker.is_open().is_some()
            && (self.breaker_probe.is_some() || !self.breaker.is_probe_due(Instant::now()));
        (!wait).then_some(first)
    }

    /// Why the breaker is open, for people.
    pub(crate) fn trouble(&self) -> Option<String> {
        let (since, cause) = self.breaker.is_open()?;
        let cause = match cause {
            Cause::Events => "too many of the last events can't be published",
            Cause::Denied => {
                "the last events' topics may not be written to, and nothing was published meanwhile"
            }
            Cause::Bytes => "the side table holds more bytes than undelivered.breaker_bytes",
        };
        Some(format!(
            "for {} s: {cause}; `postrider dead list --status pending,dead` shows them",
            since.elapsed().as_secs()
        ))
    }

    /// Waits for news of the side table. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> Event {
        tokio::select! {
            biased;
            event = self.writer.next_event() => Event::Parking(event),
            Some(news) = self.key_events.recv() => Event::Key(news),
        }
    }

    pub(crate) fn apply(&mut self, event: Event) -> Result<Arrived, SessionEnd> {
        let mut arrived = Arrived::default();
        match event {
            Event::Parking(ParkingEvent::Parked(tickets)) => {
                let (mut is_due, now) = (false, Instant::now());
                let mut news = Vec::with_capacity(tickets.len());
                for (ticket, is_new) in tickets {
                    let Some(mut note) = self.being_parked.remove(&ticket) else { continue };
                    if note.notice.reason == Reason::MALFORMED {
                        self.malformed.arrived(now);
                    }
                    is_due |= !note.is_dead;
                    note.is_dead &= is_new;
                    if let Some(key) = &note.key {
                        self.keys.parked(key);
                    }
                    if is_new {
                        news.push(note.notice.clone());
                    }
                    arrived.events.push((ticket, note));
                }
                log(Fact::Parked, self.notices.note(news, now));
                // The poller has nothing to do with the dead.
                if is_due {
                    self.kick.notify_one();
                }
            }
            Event::Parking(ParkingEvent::Free(keys)) => {
                keys.iter().for_each(|key| {
                    self.keys.free(key);
                });
                self.ask();
            }
            Event::Parking(ParkingEvent::Failed(text)) => {
                return Err(SessionEnd::restart(RestartReason::Postgres, text));
            }
            Event::Key(KeyDelivered { key, live }) => {
                if live <= self.handover_rows_max {
                    self.keys.hand_over(&key, Instant::now() + HANDOVER);
                }
                if live == 0 && self.keys.is_held(&key) {
                    self.finished.insert(key);
                    self.ask();
                }
            }
        }
        Ok(arrived)
    }

    /// Asks whether the keys are free that the poller is done with. One question at a time.
    fn ask(&mut self) {
        if self.writer.is_asking() || self.finished.is_empty() {
            return;
        }
        let keys: Vec<OrderKey> = self.finished.iter().take(KEYS_ASKED_MAX).cloned().collect();
        keys.iter().for_each(|key| {
            self.finished.remove(key);
        });
        self.writer.check(keys);
    }

    /// Looks now and then whether somebody else has freed a key.
    pub(crate) fn tick(&mut self, vitals: &Vitals, now: Instant) -> Result<(), SessionEnd> {
        if now.saturating_duration_since(self.checked_at) < self.check_every {
            return Ok(());
        }
        if vitals.takeovers() > self.takeovers {
            let text = "parked events of another slot were taken over; reading the keys again";
            return Err(SessionEnd::restart(RestartReason::Keys, text));
        }
        if self.keeps_order && self.keys.is_outdated() {
            let text = "fewer keys wait in the side table than before; reading which";
            return Err(SessionEnd::restart(RestartReason::Keys, text));
        }
        self.checked_at = now;
        log(Fact::Parked, self.notices.tick(now));
        if let Some((holdings, began)) = vitals.side_table()
            && began > self.counted_at
        {
            self.counted_at = began;
            let was_open = self.breaker.is_open().is_some();
            self.breaker.counted(holdings.bytes, began);
            self.malformed.counted(holdings.malformed, began);
            if was_open && self.breaker.is_open().is_none() {
                tracing::info!("the circuit breaker has closed; going on");
            }
        }
        self.breaker.mark(now);
        if !self.writer.is_asking() {
            let keys = self.keys.next(KEYS_ASKED_MAX);
            if !keys.is_empty() {
                self.writer.check(keys);
            }
        }
        Ok(())
    }
}

/// What people are told of an event. One that waits for another is only counted.
fn notice(row: &Row<'_>, to_park: &EventToPark) -> Notice {
    let reason = to_park.refusal.reason;
    let detail = |text: String| if reason == Reason::BLOCKED { String::new() } else { text };
    Notice {
        table: to_park.source_table.clone(),
        topic: row.topic_for_people(),
        reason,
        is_dead: to_park.fate == ParkAs::Dead,
        row_id: detail(row.id_for_people()),
        tenant: detail(shown(to_park.tenant.as_deref())),
        idempotency_key: detail(shown(to_park.idempotency_key.as_deref())),
        detail: detail(to_park.refusal.detail.clone()),
    }
}

/// What came from the side table.
pub(crate) enum Event {
    Parking(ParkingEvent),
    Key(KeyDelivered),
}

/// Waits for an event of the side table; without one, forever. Cancel safe.
pub(crate) async fn next_event(parking: &mut Option<Parking<'_>>) -> Event {
    match parking {
        Some(parking) => parking.next_event().await,
        None => std::future::pending().await,
    }
}
