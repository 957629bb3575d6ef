//! What a session knows of events that can't be published: which wait in the side table, which keys
//! wait behind them, and which have to be tried again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use super::stop::{POSTGRES, Stop};
use crate::ops::Vitals;
use crate::undelivered::notices::{Fact, log};
use crate::undelivered::parker::{Parking, ParkingNews};
use crate::undelivered::poller::KeyNews;
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Class, Reason};
use postrider_core::lsn::Lsn;
use postrider_core::parking::breaker::{Breaker, Candidate, Cause, Weight};
use postrider_core::parking::keys::{HeldKeys, Turn};
use postrider_core::parking::malformed::Malformed;
use postrider_core::parking::notices::{Notice, Notices, shown};
use postrider_core::parking::{Fate, OrderKey, Parcel};
use postrider_core::row::Row;

/// Keys looked at in one question.
const KEYS_ASKED_MAX: usize = 1000;
/// How long the next event of a key waits for the side table to be done with those before it.
const HANDOVER: Duration = Duration::from_millis(500);

/// An event on its way into the side table.
pub(super) struct OnTheWay {
    key: Option<OrderKey>,
    pub(super) table: usize,
    pub(super) is_dead: bool,
    pub(super) notice: Notice,
}

/// What became of an event that was to be parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parked {
    /// It is on its way into the side table.
    OnTheWay,
    /// It has to be tried again: the breaker is open.
    Held,
    /// It is not an event, and enough of its kind are kept.
    Dropped,
}

/// What the side table's news mean for the session.
#[derive(Default)]
pub(super) struct Arrived {
    pub(super) events: Vec<(Ticket, OnTheWay)>,
}

/// The parking half of a session.
pub(super) struct Lot<'a> {
    pub(super) parking: Parking,
    /// Whether events wait for parked ones that they keep their order with.
    pub(super) keeps_order: bool,
    pub(super) keys: HeldKeys,
    pub(super) breaker: &'a mut Breaker,
    pub(super) notices: &'a mut Notices,
    pub(super) malformed: Malformed,
    pub(super) key_news: &'a mut mpsc::Receiver<KeyNews>,
    pub(super) kick: Arc<Notify>,
    /// How many rows of a key the poller can finish at once.
    pub(super) handover_rows_max: usize,
    pub(super) check_every: Duration,
    pub(super) checked_at: Instant,
    /// Held keys that the poller seems to be done with, to be asked about.
    pub(super) finished: HashSet<OrderKey>,
    /// How often events of another slot had been taken over when the keys were read.
    pub(super) takeovers: i64,
    /// The newest commit with a parked event.
    pub(super) newest_commit: Lsn,
    /// When the last count began of what the side table holds; each is news once.
    pub(super) counted_at: Instant,
    pub(super) on_the_way: HashMap<Ticket, OnTheWay>,
    /// Events in flight that have to be tried again, in order. Nothing is read while there are any.
    pub(super) again: BTreeSet<Ticket>,
    /// The one that is being tried while the breaker is open.
    pub(super) probe: Option<Ticket>,
}

impl Lot<'_> {
    /// Whether the event of this row may go.
    pub(super) fn turn(
        &self,
        topic: &str,
        ordering_key: Option<&str>,
        partition: Option<i32>,
    ) -> Turn {
        if !self.keeps_order || self.keys.is_empty() {
            return Turn::Free;
        }
        self.keys.turn(topic, ordering_key, partition, Instant::now())
    }

    /// Parks an event in flight, or notes that it has to wait because the breaker is open.
    pub(super) fn park(
        &mut self,
        row: &Row<'_>,
        ticket: Ticket,
        class: Class,
        parcel: Parcel,
        owed_by_broker: usize,
    ) -> Result<Parked, Stop> {
        let now = Instant::now();
        let is_malformed = parcel.refusal.reason == Reason::MALFORMED;
        if is_malformed && self.malformed.is_full() {
            log(Fact::Parked, self.notices.dropped(now));
            return Ok(Parked::Dropped);
        }
        let key = parcel.order_key().filter(|_| self.keeps_order);
        let was_open = self.breaker.is_open().is_some();
        let candidate = Candidate {
            class,
            weight: Weight::of(parcel.refusal.reason),
            bytes: parcel.side_table_bytes() as u64,
            owed: owed_by_broker as u64,
            belongs_to_parked: row.position.commit_lsn <= self.newest_commit,
        };
        if !is_malformed && !self.breaker.may_park(&candidate, now) {
            if !was_open {
                self.tell_open(row, &parcel);
            }
            self.again.insert(ticket);
            return Ok(Parked::Held);
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
        let is_dead = parcel.fate == Fate::Dead;
        let note = OnTheWay { key, table: parcel.table, is_dead, notice: notice(row, &parcel) };
        self.on_the_way.insert(ticket, note);
        let failed = |error| Stop::restart(POSTGRES, error);
        self.parking.park(ticket, parcel).map_err(failed)?;
        Ok(Parked::OnTheWay)
    }

    fn tell_open(&self, row: &Row<'_>, parcel: &Parcel) {
        tracing::error!(
            table = parcel.source_table,
            id = row.id_for_people(),
            topic = row.topic_for_people(),
            reason = parcel.refusal.detail,
            "too much can't be published; the circuit breaker has opened: nothing more is parked and \
             the position is held until this event can be published"
        );
    }

    /// While the breaker is open, an event that was taken after all shows whether it can close.
    pub(super) fn watch(&mut self, ticket: Ticket) {
        if self.breaker.is_open().is_some() && self.probe.is_none() {
            self.probe = Some(ticket);
        }
    }

    /// The probe was published.
    pub(super) fn probed(&mut self, ticket: Ticket) {
        if self.probe == Some(ticket) {
            self.probe = None;
            if self.breaker.is_open().is_some() {
                self.breaker.close();
                tracing::info!("the circuit breaker has closed; going on");
            }
        }
    }

    /// The event to be tried again now, if there is one.
    pub(super) fn next_again(&self) -> Option<Ticket> {
        let first = *self.again.first()?;
        let wait = self.breaker.is_open().is_some()
            && (self.probe.is_some() || !self.breaker.is_probe_due(Instant::now()));
        (!wait).then_some(first)
    }

    /// Why the breaker is open, for people.
    pub(super) fn trouble(&self) -> Option<String> {
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
    pub(super) async fn news(&mut self) -> News {
        tokio::select! {
            biased;
            news = self.parking.news() => News::Parking(news),
            Some(news) = self.key_news.recv() => News::Key(news),
        }
    }

    pub(super) fn learn(&mut self, news: News) -> Result<Arrived, Stop> {
        let mut arrived = Arrived::default();
        match news {
            News::Parking(ParkingNews::Parked(tickets)) => {
                let (mut is_due, now) = (false, Instant::now());
                let mut news = Vec::with_capacity(tickets.len());
                for (ticket, is_new) in tickets {
                    let Some(mut note) = self.on_the_way.remove(&ticket) else { continue };
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
            News::Parking(ParkingNews::Free(keys)) => {
                keys.iter().for_each(|key| {
                    self.keys.free(key);
                });
                self.ask();
            }
            News::Parking(ParkingNews::Failed(text)) => {
                return Err(Stop::restart(POSTGRES, text));
            }
            News::Key(KeyNews { key, live }) => {
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
        if self.parking.is_asking() || self.finished.is_empty() {
            return;
        }
        let keys: Vec<OrderKey> = self.finished.iter().take(KEYS_ASKED_MAX).cloned().collect();
        keys.iter().for_each(|key| {
            self.finished.remove(key);
        });
        self.parking.check(keys);
    }

    /// Looks now and then whether somebody else has freed a key.
    pub(super) fn tick(&mut self, vitals: &Vitals, now: Instant) -> Result<(), Stop> {
        if now.saturating_duration_since(self.checked_at) < self.check_every {
            return Ok(());
        }
        if vitals.takeovers() > self.takeovers {
            let text = "parked events of another slot were taken over; reading the keys again";
            return Err(Stop::restart("keys", text));
        }
        if self.keeps_order && self.keys.is_outdated() {
            let text = "fewer keys wait in the side table than before; reading which";
            return Err(Stop::restart("keys", text));
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
        if !self.parking.is_asking() {
            let keys = self.keys.next(KEYS_ASKED_MAX);
            if !keys.is_empty() {
                self.parking.check(keys);
            }
        }
        Ok(())
    }
}

/// What people are told of an event. One that waits for another is only counted.
fn notice(row: &Row<'_>, parcel: &Parcel) -> Notice {
    let reason = parcel.refusal.reason;
    let detail = |text: String| if reason == Reason::BLOCKED { String::new() } else { text };
    Notice {
        table: parcel.source_table.clone(),
        topic: row.topic_for_people(),
        reason,
        is_dead: parcel.fate == Fate::Dead,
        row_id: detail(row.id_for_people()),
        tenant: detail(shown(parcel.tenant.as_deref())),
        idempotency_key: detail(shown(parcel.idempotency_key.as_deref())),
        detail: detail(parcel.refusal.detail.clone()),
    }
}

/// What came from the side table.
pub(super) enum News {
    Parking(ParkingNews),
    Key(KeyNews),
}
