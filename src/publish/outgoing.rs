//! The outgoing half of a session: rows → sink (`attempt`), and the sink's reports → watermark
//! (`settle`).

use std::time::{Duration, Instant};

use super::flight::Flight;
use super::topic_queues::TopicQueues;
use crate::clock;
use crate::config::{LimitsConfig, OutboxTable};
use crate::ops::{Metrics, Routes};
use crate::parking::session::Parking;
use crate::sink::Sink;
use postrider_core::ack::{AckTracker, Done};
use postrider_core::clock::Clocks;
use postrider_core::delivery::{Report, Ticket};
use postrider_core::envelope::Envelope;
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::PgTime;

/// The outgoing half of a session.
pub(crate) struct Outgoing<'a, S, P = Lsn> {
    pub(crate) sink: &'a mut S,
    pub(crate) acks: AckTracker<P, Flight>,
    /// How much of what is done is stored; None: that is handled elsewhere.
    pub(crate) stored: Option<Done>,
    pub(crate) routes: &'a mut Routes,
    pub(crate) metrics: &'a Metrics,
    pub(crate) envelope: &'a Envelope,
    pub(crate) tables: &'a [OutboxTable],
    pub(crate) limits: &'a LimitsConfig,
    pub(crate) reports: Vec<Report>,
    /// The limits were reached; see [`room`](super::room).
    pub(crate) full: bool,
    /// The next event would exceed them.
    pub(crate) lacks_room: bool,
    /// The shortest time for which the stamp of a record sent in this session is valid.
    pub(crate) stamp_wait_min: Duration,
    /// When the present turn of the loop began: there are too many events to read the clock for
    /// each.
    pub(crate) now: Instant,
    /// The same by the clocks of this machine and of the server.
    pub(crate) clocks: Clocks,
    /// Events in flight that have halted the relay: they hold the position until the session ends.
    pub(crate) halted: usize,
    /// Events in flight whose topic is not ready.
    pub(crate) queues: TopicQueues,
    /// Where events that can't be published go; None: they halt the relay.
    pub(crate) parking: Option<Parking<'a>>,
}

impl<'a, S: Sink, P: Copy + Ord> Outgoing<'a, S, P> {
    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self, server_ahead_micros: i64) {
        self.now = Instant::now();
        self.clocks = clock::now(server_ahead_micros);
    }

    /// Events in flight that neither the sink nor the side table has: they have to be retried.
    pub(crate) fn held_back(&self) -> usize {
        self.parking.as_ref().map_or(0, |parking| parking.retry_len())
    }

    /// The events that the sink has, from the oldest on.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (Ticket, &Flight)> {
        self.acks.in_flight().filter(|(_, flight)| flight.handover.is_some())
    }

    /// Whether the broker owes us an answer, about an event or about a topic.
    pub(crate) fn is_waiting(&self) -> bool {
        self.owed_by_broker() > 0 || self.queues.len() > 0
    }

    /// Events that the broker owes us an answer for.
    pub(crate) fn owed_by_broker(&self) -> usize {
        let parking = self.parking.as_ref().map_or(0, |parking| parking.being_parked_len());
        let elsewhere = self.held_back() + self.queues.len() + parking;
        self.acks.in_flight_events().saturating_sub(elsewhere)
    }

    /// Whether waiting for more reports can change anything.
    pub(crate) fn is_drained(&self) -> bool {
        // Waiting for a topic is useful only if later events are published: they would be repeated.
        let waiting = self.queues.len() + self.held_back() + self.halted;
        let is_first = self.acks.span_events() <= waiting;
        self.acks.in_flight_events() <= waiting && (is_first || self.queues.len() == 0)
    }

    /// Seconds since the commit of the oldest event that is not done: one in flight, else the held.
    pub(crate) fn lag_seconds(&self, held_since: Option<PgTime>) -> f64 {
        let oldest = self.acks.oldest().map(|flight| flight.commit_time).or(held_since);
        let now = self.clocks.server();
        oldest.map_or(0.0, |time| (now - time.unix_micros()).max(0) as f64 / 1e6)
    }

    /// Everything before this is done.
    pub(crate) fn watermark(&self) -> P {
        self.acks.watermark()
    }
}

impl<S: Sink> Outgoing<'_, S> {
    /// A transaction ends here.
    pub(crate) fn committed(&mut self, end: Lsn) {
        self.acks.commit(end);
        self.sink.boundary(end);
    }
}
