//! Handing one row to the sink: what it becomes, or why not.

use super::flight::{Flight, Handover};
use super::outgoing::Outgoing;
use super::raw_event::RawEvent;
use super::room::in_memory;
use crate::session_end::SessionEnd;
use crate::sink::Sink;
use postrider_core::delivery::{Class, NotTaken, Refusal, Ticket};
use postrider_core::parking::keys::KeyGate;
use postrider_core::row::{Row, RowFault};

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

impl<S: Sink, P: Copy + Ord> Outgoing<'_, S, P> {
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
                let topic = self.envelope.topic_for_log(row);
                (source.len(), self.routes.index(row.table, &topic), None)
            }
        };
        let flight = Flight { route, commit_time: row.commit_time, source, handover };
        self.acks.admit(bytes, row.position, flight);
        self.update_room();
        match attempt {
            Attempt::Unpublishable(why) => self.unpublishable(row, ticket, why)?,
            Attempt::TopicNotReady => {
                let topic = self.envelope.topic(row).unwrap_or_default();
                self.queues.push(&topic, ticket);
            }
            Attempt::Taken { .. } | Attempt::NotYet => {
                // A session can begin with the breaker open, but without a held event.
                if let Some(parking) = &mut self.parking {
                    parking.taken(ticket);
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
        let event = match self.envelope.event(row) {
            Ok(event) => event,
            Err(fault) => return Ok(self.faulty(row, &fault)),
        };
        if is_new && self.queues.has(&event.topic) {
            return Ok(Attempt::TopicNotReady);
        }
        if let Some(parking) = &self.parking {
            match parking.gate(&event.topic, event.ordering_key(), event.partition) {
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
                let route = self.routes.index(event.table, &event.topic);
                Ok(Attempt::Taken { bytes, route, handover })
            }
            Err(NotTaken::Busy) => Ok(Attempt::NotYet),
            Err(NotTaken::TopicBusy | NotTaken::Unreachable) => Ok(Attempt::TopicNotReady),
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
}

fn refused(class: Class, refusal: Refusal) -> Attempt {
    Attempt::Unpublishable(Unpublishable::Refused(class, refusal))
}
