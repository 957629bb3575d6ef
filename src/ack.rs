//! Tickets → watermark: which position is safe to confirm. No I/O, no clock.
//!
//! Each event handed to the sink gets a ticket; tickets come back in any order. The watermark is the
//! end of the last commit of which every event, and every event before it, is done. Only this module
//! can make a [`ConfirmedLsn`], and only the replication stream can send one, so a position that was
//! not earned here can't reach the server. A ticket that never comes back costs progress, never data.

use std::collections::VecDeque;

use crate::lsn::Lsn;

/// A receipt for one event in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// The number to travel with the record through the broker's client.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The ticket of a number that travelled; a wrong number is refused by [`AckTracker::done`].
    pub fn from_number(number: u64) -> Self {
        Ticket(number)
    }
}

/// A position that may be confirmed to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfirmedLsn(Lsn);

impl ConfirmedLsn {
    /// The position.
    pub fn lsn(self) -> Lsn {
        self.0
    }
}

/// A ticket that is not in flight: a report that came twice or from another session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("delivery report for ticket {0}, which is not in flight")]
pub struct UnknownTicket(u64);

/// What is in flight, in the order of the log. `T` is what the caller wants back with the ticket.
#[derive(Debug)]
pub struct AckTracker<T> {
    /// The number of the first slot.
    first: u64,
    /// From the oldest event that is not done to the newest handed out.
    slots: VecDeque<Slot<T>>,
    /// Ends of commits not yet confirmed, each with the first ticket behind it. Commits without
    /// events in between share an entry, so there are never more than events in flight plus one.
    commits: VecDeque<(u64, Lsn)>,
    confirmed: Lsn,
    in_flight_events: usize,
    in_flight_bytes: usize,
}

#[derive(Debug)]
struct Slot<T> {
    bytes: usize,
    /// Gone once the event is done.
    cargo: Option<T>,
}

impl<T> AckTracker<T> {
    /// A session that begins at a position the slot has confirmed.
    pub fn resume_at(confirmed: Lsn) -> Self {
        AckTracker {
            first: 0,
            slots: VecDeque::new(),
            commits: VecDeque::new(),
            confirmed,
            in_flight_events: 0,
            in_flight_bytes: 0,
        }
    }

    /// The ticket that the next [`admit`](Self::admit) will put in flight.
    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.first + self.slots.len() as u64)
    }

    /// An event was taken by the sink under [`next_ticket`](Self::next_ticket).
    pub fn admit(&mut self, bytes: usize, cargo: T) {
        self.slots.push_back(Slot {
            bytes,
            cargo: Some(cargo),
        });
        self.in_flight_events += 1;
        self.in_flight_bytes += bytes;
    }

    /// A transaction ends behind the last event handed out.
    pub fn commit(&mut self, end: Lsn) {
        let boundary = self.next_ticket().0;
        match self.commits.back_mut() {
            Some((last, lsn)) if *last == boundary => *lsn = (*lsn).max(end),
            _ => self.commits.push_back((boundary, end)),
        }
        self.advance();
    }

    /// An event is done; gives back what travelled with it.
    pub fn done(&mut self, ticket: Ticket) -> Result<T, UnknownTicket> {
        let unknown = || UnknownTicket(ticket.0);
        let index = ticket.0.checked_sub(self.first).ok_or_else(unknown)?;
        let index = usize::try_from(index).map_err(|_| unknown())?;
        let slot = self.slots.get_mut(index).ok_or_else(unknown)?;
        let cargo = slot.cargo.take().ok_or_else(unknown)?;
        self.in_flight_events -= 1;
        self.in_flight_bytes -= slot.bytes;
        if index == 0 {
            while self.slots.front().is_some_and(|slot| slot.cargo.is_none()) {
                self.slots.pop_front();
                self.first += 1;
            }
            self.advance();
        }
        Ok(cargo)
    }

    /// The server has nothing for us up to `wal_end`. Counts only outside a transaction and with
    /// nothing in flight: this is what keeps an idle outbox from holding the log.
    pub fn keepalive(&mut self, wal_end: Lsn, in_transaction: bool) {
        if !in_transaction && self.in_flight_events == 0 {
            self.confirmed = self.confirmed.max(wal_end);
        }
    }

    fn advance(&mut self) {
        while let Some((boundary, end)) = self.commits.front().copied() {
            if boundary > self.first {
                break;
            }
            self.confirmed = self.confirmed.max(end);
            self.commits.pop_front();
        }
    }

    /// What may be confirmed now.
    pub fn confirmed(&self) -> ConfirmedLsn {
        ConfirmedLsn(self.confirmed)
    }

    /// What travels with the oldest event in flight.
    pub fn oldest(&self) -> Option<&T> {
        self.slots.front().and_then(|slot| slot.cargo.as_ref())
    }

    /// Events handed out and not done.
    pub fn in_flight_events(&self) -> usize {
        self.in_flight_events
    }

    /// Their bytes.
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }
}
