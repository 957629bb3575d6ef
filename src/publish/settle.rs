//! What became of events in flight: the sink's reports, and those of the side table.

use super::attempt::Unpublishable;
use super::outgoing::Outgoing;
use crate::ops::Ignored;
use crate::parking::session::{ParkResult, ParkingEvent};
use crate::session_end::SessionEnd;
use crate::sink::Sink;
use postrider_core::ack::UnknownTicket;
use postrider_core::delivery::{Class, Outcome, Reason, Refusal, Report, Ticket};
use postrider_core::parking::keys::KeyGate;
use postrider_core::parking::{EventToPark, ParkAs};
use postrider_core::row::{Row, explicit_partition};

impl<S: Sink, P: Copy + Ord> Outgoing<'_, S, P> {
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
                (Err(first), Err(second)) => Err(first.more_informative(second)),
            };
        }
        self.reports = reports;
        self.update_room();
        if let (Ok(done), Some(parking)) = (&result, &mut self.parking)
            && *done > 0
        {
            parking.count_published(*done);
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
            parking.delivered(ticket);
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
            parking.not_delivered(ticket);
            // The sink keeps the order of keys; whether one has to wait is decided here.
            let topic = self.envelope.topic(row).unwrap_or_default();
            let key = self.envelope.ordering_key(row).ok().flatten();
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
        let (class, park_as) = (why.class(), why.park_as());
        let is_blocked = matches!(why, Unpublishable::Blocked);
        let refusal = why.into_refusal();
        // The event itself is one of them.
        let owed = self.owed_by_broker().saturating_sub(1);
        let parked = match &mut self.parking {
            None => {
                self.halted += 1;
                let halt = self.halt(row, class, &refusal);
                self.routes.failed(row.table, &self.envelope.topic_for_log(row), class.name());
                return Err(halt);
            }
            Some(parking) => {
                let to_park = EventToPark::of_row(row, self.envelope, park_as, refusal);
                parking.park(row, ticket, class, to_park, owed)?
            }
        };
        if parked != ParkResult::Held && !is_blocked {
            self.routes.failed(row.table, &self.envelope.topic_for_log(row), class.name());
        }
        if parked == ParkResult::Dropped {
            self.metrics.ignored(Ignored::MalformedMessage);
            self.acks.done(ticket)?;
            self.update_room();
        }
        Ok(())
    }

    /// Applies an event of the side table; returns how many events are done.
    pub(crate) fn apply(&mut self, event: ParkingEvent) -> Result<u64, SessionEnd> {
        let Some(parking) = &mut self.parking else { return Ok(0) };
        let arrived = parking.apply(event)?;
        let done = arrived.len() as u64;
        for event in arrived {
            self.acks.done(event.ticket)?;
            if event.is_new_dead {
                self.routes.died(event.table, &event.topic);
            }
        }
        self.update_room();
        Ok(done)
    }
}

impl Unpublishable {
    fn class(&self) -> Class {
        match self {
            Unpublishable::Refused(class, _) => *class,
            Unpublishable::Blocked => Class::Retryable,
        }
    }

    fn park_as(&self) -> ParkAs {
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
                reason: Reason::Blocked,
                detail: "an earlier event that it keeps its order with is not delivered".to_owned(),
            },
        }
    }
}
