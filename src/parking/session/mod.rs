//! What a session knows of events that can't be published: which are being parked, which keys wait
//! for parked ones, and which events have to be retried.

mod admit;
mod changes;
mod retries;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

pub(crate) use self::admit::ParkResult;

use self::admit::BeingParked;
use super::poller::KeyDelivered;
use super::writer::{ParkingWriter, WriterEvent};
use crate::config::{Config, Order};
use crate::postgres::Server;
use crate::progress::Identity;
use crate::session_end::SessionEnd;
use postrider_core::delivery::Ticket;
use postrider_core::lsn::Lsn;
use postrider_core::order::OrderKey;
use postrider_core::parking::breaker::Breaker;
use postrider_core::parking::keys::{HeldKeys, KeyGate};
use postrider_core::parking::malformed::MalformedCount;
use postrider_core::parking::notices::Notices;

/// The parking half of a session.
pub(crate) struct Parking<'a> {
    writer: ParkingWriter,
    /// Whether events wait for parked ones that they keep their order with.
    keeps_order: bool,
    keys: HeldKeys,
    breaker: &'a mut Breaker,
    notices: &'a mut Notices,
    malformed: MalformedCount,
    key_events: &'a mut mpsc::Receiver<KeyDelivered>,
    kick: Arc<Notify>,
    /// How many rows of a key the poller can finish at once.
    handover_rows_max: usize,
    check_every: Duration,
    checked_at: Instant,
    /// Held keys that the poller seems to have finished. Whether they are free is asked next.
    finished: HashSet<OrderKey>,
    /// How often events of another slot had been taken over when the keys were read.
    takeovers: i64,
    /// The newest commit with a parked event.
    newest_commit: Lsn,
    /// When the newest count of the side table began that was applied.
    counted_at: Instant,
    being_parked: HashMap<Ticket, BeingParked>,
    /// Events in flight that have to be retried, in order. Nothing is read while there are any.
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

/// A change in the side table.
pub(crate) enum ParkingEvent {
    Writer(WriterEvent),
    Poller(KeyDelivered),
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
        breaker.remember_parked(Instant::now());
        Ok(Parking {
            writer,
            keeps_order: undelivered.order != Order::Continue,
            keys: holdings.keys,
            breaker,
            notices,
            malformed: MalformedCount::new(holdings.live.malformed),
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

    /// Whether an event may be published, or has to wait for parked events of its key.
    pub(crate) fn gate(
        &self,
        topic: &str,
        ordering_key: Option<&str>,
        partition: Option<i32>,
    ) -> KeyGate {
        if !self.keeps_order || self.keys.is_empty() {
            return KeyGate::Open;
        }
        self.keys.gate(topic, ordering_key, partition, Instant::now())
    }

    async fn next_event(&mut self) -> ParkingEvent {
        tokio::select! {
            biased;
            event = self.writer.next_event() => ParkingEvent::Writer(event),
            Some(event) = self.key_events.recv() => ParkingEvent::Poller(event),
        }
    }
}

/// Waits for a change in the side table; without one, forever. Cancel safe.
pub(crate) async fn next_event(parking: &mut Option<Parking<'_>>) -> ParkingEvent {
    match parking {
        Some(parking) => parking.next_event().await,
        None => std::future::pending().await,
    }
}
