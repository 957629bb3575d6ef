//! Rows → sink, and the sink's reports → watermark.

use std::time::{Duration, Instant};

use super::flight::{Flight, Handover};
use super::raw_event::RawEvent;
use super::room::{in_memory, is_full};
use super::topic_queues::TopicQueues;
use crate::clock;
use crate::config::{LimitsConfig, OutboxTable};
use crate::ops::{Ignored, Metrics, Routes};
use crate::parking::session::{self as parking, Arrived, ParkResult, Parking};
use crate::session_end::SessionEnd;
use crate::sink::Sink;
use postrider_core::ack::{AckTracker, Done, UnknownTicket};
use postrider_core::clock::Clocks;
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Class, Outcome, Reason, Refusal};
use postrider_core::delivery::{NotTaken, Report};
use postrider_core::envelope::Envelope;
use postrider_core::lsn::Lsn;
use postrider_core::parking::keys::KeyGate;
use postrider_core::parking::{EventToPark, ParkAs};
use postrider_core::pgoutput::PgTime;
use postrider_core::row::{Column, Event, Row, RowFault, explicit_partition};

/// Whether a row is on its way.
pub(crate) enum Sent {
    /// It is in flight.
    Yes,
    /// It can't be taken now: retry after the next event.
    NotYet(RawEvent),
}

/// The result of handing a row to the sink.
pub(crate) enum Attempt {
    /// It was taken; its bytes, and the route that it counts for.
    Taken { bytes: usize, route: usize, handover: Handover },
    /// Retry after the next event.
    NotYet,
    /// Its topic is not ready: it waits, and the events of other topics continue.
    TopicNotReady,
    /// It can't be published.
    Unpublishable(Unpublishable),
}

/// Why an event can't be published now.
#[derive(Debug)]
pub(crate) enum Unpublishable {
    /// It was refused.
    Refused(Class, Refusal),
    /// An earlier event that it keeps its order with is not delivered.
    Blocked,
}

impl Unpublishable {
    fn class(&self) -> Class {
        match self {
            Unpublishable::Refused(class, _) => *class,
            Unpublishable::Blocked => Class::Retryable,
        }
    }

    fn fate(&self) -> ParkAs {
        match self {
            Unpublishable::Blocked => ParkAs::WaitForEarlier,
            Unpublishable::Refused(Class::Rejected, _) => ParkAs::Dead,
            Unpublishable::Refused(..) => ParkAs::Retry,
        }
    }

    fn into_refusal(self) -> Refusal {
        match self {
            Unpublishable::Refused(_, refusal) => refusal,
            Unpublishable::Blocked => Refusal {
                reason: Reason::BLOCKED,
                detail: "an earlier event that it keeps its order with is not delivered".to_owned(),
            },
        }
    }
}

/// The outgoing half of a session.
pub(crate) struct Outgoing<'a, S> {
    pub(crate) sink: &'a mut S,
    pub(crate) acks: AckTracker<Flight>,
    /// How much of what is done is stored; None: that is handled elsewhere.
    pub(crate) kept: Option<Done>,
    pub(crate) routes: &'a mut Routes,
    pub(crate) metrics: &'a Metrics,
    pub(crate) envelope: &'a Envelope,
    pub(crate) tables: &'a [OutboxTable],
    pub(crate) limits: &'a LimitsConfig,
    pub(crate) reports: Vec<Report>,
    /// The limits were reached; see [`is_full`].
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

impl<'a, S: Sink> Outgoing<'a, S> {
    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self, server_ahead_micros: i64) {
        self.now = Instant::now();
        self.clocks = clock::now(server_ahead_micros);
    }

    /// Whether another row may be read.
    pub(crate) fn has_room(&self) -> bool {
        !self.full && self.held_back() == 0
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

    fn update_room(&mut self) {
        let partitions = self.sink.partitions_in_use();
        self.full = is_full(&self.acks, self.kept, self.limits, partitions, self.full);
    }

    /// What is done has been stored.
    pub(crate) fn keep(&mut self, done: Done) {
        self.kept = Some(done);
        self.update_room();
    }

    /// Hands a row to the sink, or to the side table.
    pub(crate) fn publish(&mut self, row: &Row<'_>, source: RawEvent) -> Result<Sent, SessionEnd> {
        let ticket = self.acks.next_ticket();
        self.lacks_room = false;
        let attempt = self.attempt(row, ticket, source.len(), true)?;
        let (bytes, route, handover) = match &attempt {
            Attempt::NotYet => return Ok(Sent::NotYet(source)),
            // An event that can't be published halts the relay: those before it go first.
            Attempt::TopicNotReady if self.parking.is_none() => return Ok(Sent::NotYet(source)),
            Attempt::Taken { bytes, route, handover } => (*bytes, *route, Some(*handover)),
            Attempt::TopicNotReady | Attempt::Unpublishable(_) => {
                (source.len(), self.routes.number(row.table, &row.topic_for_people()), None)
            }
        };
        let flight = Flight { route, commit_time: row.commit_time, source, handover };
        self.acks.admit(bytes, row.position, flight);
        self.update_room();
        match attempt {
            Attempt::Unpublishable(why) => self.unpublishable(row, ticket, why)?,
            Attempt::TopicNotReady => {
                let topic = row.text(Column::Topic).ok().flatten().unwrap_or_default();
                self.queues.push(&topic, ticket);
            }
            Attempt::Taken { .. } | Attempt::NotYet => {
                // A session can begin with the breaker open, but without a held event.
                if let Some(parking) = &mut self.parking {
                    parking.watch(ticket);
                }
            }
        }
        Ok(Sent::Yes)
    }

    /// Tries to hand a row to the sink.
    pub(crate) fn attempt(
        &mut self,
        row: &Row<'_>,
        ticket: Ticket,
        source_bytes: usize,
        is_new: bool,
    ) -> Result<Attempt, SessionEnd> {
        // An event larger than the limit is admitted alone.
        let in_flight = self.acks.in_flight_bytes();
        let bytes_max = self.limits.in_flight_bytes;
        let too_much =
            |bytes: usize| is_new && in_flight > 0 && in_memory(in_flight + bytes, 0) > bytes_max;
        if too_much(source_bytes) {
            self.lacks_room = true;
            return Ok(Attempt::NotYet);
        }
        let event = match Event::from_row(row) {
            Ok(event) => event,
            Err(fault) => return Ok(self.faulty(row, &fault)),
        };
        if is_new && self.queues.has(&event.topic) {
            return Ok(Attempt::TopicNotReady);
        }
        if let Some(parking) = &self.parking {
            match parking.gate(&event.topic, event.ordering_key.as_deref(), event.partition) {
                KeyGate::Open => {}
                KeyGate::OpeningSoon => return Ok(Attempt::NotYet),
                // An event that can't become a record has nothing to wait for.
                KeyGate::Blocked => {
                    let fault = self.envelope.original(&event).err();
                    let blocked = || Attempt::Unpublishable(Unpublishable::Blocked);
                    return Ok(fault.map_or_else(blocked, |fault| self.faulty(row, &fault)));
                }
            }
        }
        let Some(destination) = self.sink.destination(&event.topic) else {
            return Ok(Attempt::TopicNotReady);
        };
        let handover = Handover::new(self.now, destination.unacknowledged_max);
        self.stamp_wait_min = self.stamp_wait_min.min(destination.unacknowledged_max);
        let record = match self.envelope.record(&event, destination, self.clocks) {
            Ok(record) => record,
            Err(fault) => return Ok(self.faulty(row, &fault)),
        };
        let bytes = record.content_bytes();
        if too_much(bytes) {
            self.lacks_room = true;
            return Ok(Attempt::NotYet);
        }
        match self.sink.enqueue(&record, ticket) {
            Ok(()) => {
                let route = self.routes.number(event.table, &event.topic);
                Ok(Attempt::Taken { bytes, route, handover })
            }
            Err(NotTaken::Busy) => Ok(Attempt::NotYet),
            Err(NotTaken::TopicBusy) => Ok(Attempt::TopicNotReady),
            Err(NotTaken::Broken(broken)) => Err(broken.into()),
            Err(NotTaken::Retry(refusal)) => Ok(refused(Class::Retryable, refusal)),
            Err(NotTaken::Reject(refusal)) => Ok(refused(Class::Rejected, refusal)),
        }
    }

    /// A fault names our column; people look for the table's.
    fn faulty(&self, row: &Row<'_>, fault: &RowFault) -> Attempt {
        let mapped = || self.tables.get(row.table)?.columns.mapped(fault.column()?);
        let name = mapped().map(|name| format!(" (the table's column \"{name}\")"));
        let detail = format!("{fault}{}", name.unwrap_or_default());
        refused(Class::Rejected, Refusal { reason: fault.reason(), detail })
    }

    /// Processes the sink's reports; returns how many events are done. Successes are counted even
    /// if something else failed.
    pub(crate) fn settle(&mut self) -> Result<u64, SessionEnd> {
        let now = self.clocks.server();
        let mut result = Ok(0);
        let mut reports = std::mem::take(&mut self.reports);
        for report in reports.drain(..) {
            let settled = match report {
                Report::Settled(ticket, Outcome::Ok) => match self.done(ticket, now) {
                    Ok(()) => {
                        result = result.map(|done| done + 1);
                        continue;
                    }
                    Err(unknown) => Err(unknown.into()),
                },
                Report::Settled(ticket, Outcome::Retry(refusal)) => {
                    self.not_delivered(ticket, Unpublishable::Refused(Class::Retryable, refusal))
                }
                Report::Settled(ticket, Outcome::Reject(refusal)) => {
                    self.not_delivered(ticket, Unpublishable::Refused(Class::Rejected, refusal))
                }
                Report::Settled(ticket, Outcome::Blocked) => {
                    self.not_delivered(ticket, Unpublishable::Blocked)
                }
                Report::Broken(broken) => Err(broken.into()),
            };
            result = match (result, settled) {
                (Ok(done), Ok(())) => Ok(done),
                (Ok(_), Err(stop)) | (Err(stop), Ok(())) => Err(stop),
                (Err(first), Err(second)) => Err(first.or_rather(second)),
            };
        }
        self.reports = reports;
        self.update_room();
        if let (Ok(done), Some(parking)) = (&result, &mut self.parking)
            && *done > 0
        {
            parking.published(*done);
        }
        result
    }

    fn done(&mut self, ticket: Ticket, now_unix_micros: i64) -> Result<(), UnknownTicket> {
        let flight = self.acks.done(ticket)?;
        if let Some(route) = self.routes.get(flight.route) {
            let micros = (now_unix_micros - flight.commit_time.unix_micros()).max(0);
            route.published(micros as f64 / 1e6);
        }
        if let Some(parking) = &mut self.parking {
            parking.probed(ticket);
        }
        Ok(())
    }

    /// The sink has answered about one event.
    fn not_delivered(&mut self, ticket: Ticket, why: Unpublishable) -> Result<(), SessionEnd> {
        let flight = self.acks.get_mut(ticket).ok_or_else(|| UnknownTicket::of(ticket))?;
        flight.handover = None;
        let source = flight.source.clone();
        source.read(|row| {
            let Some(parking) = &mut self.parking else {
                return self.unpublishable(row, ticket, why);
            };
            parking.probe_failed(ticket);
            let key = row.text(Column::OrderingKey).ok().flatten();
            let topic = row.text(Column::Topic).ok().flatten().unwrap_or_default();
            // The sink keeps the order of keys; whether one has to wait is decided here.
            let partition = explicit_partition(row).ok().flatten();
            if matches!(why, Unpublishable::Blocked)
                && parking.gate(&topic, key.as_deref(), partition) != KeyGate::Blocked
            {
                parking.retry_later(ticket);
                return Ok(());
            }
            self.unpublishable(row, ticket, why)
        })
    }

    /// An event in flight can't be published: it is parked, or it halts the relay.
    pub(crate) fn unpublishable(
        &mut self,
        row: &Row<'_>,
        ticket: Ticket,
        why: Unpublishable,
    ) -> Result<(), SessionEnd> {
        let (class, fate) = (why.class(), why.fate());
        let is_blocked = matches!(why, Unpublishable::Blocked);
        let refusal = why.into_refusal();
        // The event itself is one of them.
        let owed = self.owed_by_broker().saturating_sub(1);
        let parked = match &mut self.parking {
            None => {
                self.halted += 1;
                let halt = self.halt(row, class, &refusal);
                self.routes.failed(row.table, &row.topic_for_people(), class.name());
                return Err(halt);
            }
            Some(parking) => {
                let to_park = EventToPark::of_row(row, self.envelope, fate, refusal);
                parking.park(row, ticket, class, to_park, owed)?
            }
        };
        if parked != ParkResult::Held && !is_blocked {
            self.routes.failed(row.table, &row.topic_for_people(), class.name());
        }
        if parked == ParkResult::Dropped {
            self.metrics.ignored(Ignored::MalformedMessage);
            self.acks.done(ticket)?;
            self.update_room();
        }
        Ok(())
    }

    /// Applies an event of the side table; returns how many events are done.
    pub(crate) fn apply(&mut self, event: parking::Event) -> Result<u64, SessionEnd> {
        let Some(parking) = &mut self.parking else { return Ok(0) };
        let Arrived { events } = parking.apply(event)?;
        let done = events.len() as u64;
        for (ticket, note) in events {
            self.acks.done(ticket)?;
            if note.is_dead {
                self.routes.died(note.table, &note.notice.topic);
            }
        }
        self.update_room();
        Ok(done)
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

    /// The position up to which everything is done.
    pub(crate) fn watermark(&self) -> Lsn {
        self.acks.confirmed().lsn()
    }
}

fn refused(class: Class, refusal: Refusal) -> Attempt {
    Attempt::Unpublishable(Unpublishable::Refused(class, refusal))
}
