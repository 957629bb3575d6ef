//! Events in flight that the sink does not have yet: when they are retried.

use super::attempt::Attempt;
use super::outgoing::Outgoing;
use crate::parking::session::Parking;
use crate::session_end::SessionEnd;
use crate::sink::Sink;
use postrider_core::ack::UnknownTicket;
use postrider_core::delivery::ReadyTopics;
use postrider_core::delivery::Ticket;

/// What an event in flight has to wait for.
enum NotNow {
    /// Its topic.
    Topic,
    /// The sink.
    Sink,
}

impl<S: Sink, P: Copy + Ord> Outgoing<'_, S, P> {
    /// Retries events that could not be parked, or that came back because of another of their key.
    pub(crate) fn retry_parked(&mut self) -> Result<(), SessionEnd> {
        while let Some(ticket) = self.parking.as_ref().and_then(Parking::retry_next) {
            let leave = |out: &mut Self| {
                if let Some(parking) = &mut out.parking {
                    parking.retried(ticket);
                }
            };
            if self.retry(ticket, leave)?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Retries events whose topic was not ready, if topics may be ready now. In a hurry, or if
    /// nothing else can continue meanwhile, a topic that does not exist is not given time to
    /// appear.
    pub(crate) fn retry_topics(&mut self, in_a_hurry: bool) -> Result<(), SessionEnd> {
        let news = self.sink.ready_topics();
        self.queues.mark_ready(news);
        // Events that were held back before may have the same key, and go first.
        if self.queues.len() == 0 || self.held_back() > 0 {
            return Ok(());
        }
        let is_blocked = (self.full || self.lacks_room) && self.owed_by_broker() == 0;
        if in_a_hurry || is_blocked {
            self.sink.hurry();
        }
        for topic in self.queues.take_due() {
            while let Some(ticket) = self.queues.front(&topic) {
                match self.retry(ticket, |out| out.queues.pop(&topic))? {
                    // It may be held now, and goes before those that follow it.
                    None if self.held_back() > 0 => {
                        self.queues.mark_ready(ReadyTopics::all());
                        return Ok(());
                    }
                    None => {}
                    Some(NotNow::Topic) => break,
                    Some(NotNow::Sink) => {
                        self.queues.try_again(&topic);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Retries an event in flight. If that has a result, `leave` removes it from where it waited.
    fn retry(
        &mut self,
        ticket: Ticket,
        leave: impl FnOnce(&mut Self),
    ) -> Result<Option<NotNow>, SessionEnd> {
        let source = self.acks.get(ticket).map(|flight| flight.source.clone());
        let source = source.ok_or_else(|| UnknownTicket::of(ticket))?;
        match source.read(|row| self.attempt(row, ticket, 0, false))? {
            Attempt::NotYet => return Ok(Some(NotNow::Sink)),
            Attempt::TopicNotReady => return Ok(Some(NotNow::Topic)),
            Attempt::Taken { handover, .. } => {
                leave(self);
                if let Some(parking) = &mut self.parking {
                    parking.taken(ticket);
                }
                if let Some(flight) = self.acks.get_mut(ticket) {
                    flight.handover = Some(handover);
                }
            }
            Attempt::Unpublishable(why) => {
                leave(self);
                source.read(|row| self.unpublishable(row, ticket, why))?;
            }
        }
        Ok(None)
    }
}
