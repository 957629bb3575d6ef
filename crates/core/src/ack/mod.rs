//! Tickets → watermark: which position is safe to confirm. No I/O, no clock.
//!
//! Each event handed to the sink gets a ticket; tickets come back in any order. The watermark is
//! the end of the last commit of which every event, and every event before it, is done. Only this
//! module can make a [`ConfirmedLsn`], and only the replication stream can send one, so no other
//! position can reach the server. A ticket that never comes back costs progress, never data.
//!
//! Inside the transaction after the watermark, [`DoneInside`] says how far the events from its
//! beginning are done. It is never reported to the server, only stored, so that the next session
//! reads that part of the transaction without publishing it again (ADR 26).

use std::collections::VecDeque;

use crate::delivery::Ticket;
use crate::lsn::Lsn;
use crate::transaction::Position;

/// A position that may be confirmed to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfirmedLsn(Lsn);

impl ConfirmedLsn {
    /// The position.
    pub fn lsn(self) -> Lsn {
        self.0
    }
}

/// How far inside a transaction all events from its beginning are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoneInside {
    commit_lsn: Lsn,
    change_lsn: Lsn,
    events: u64,
}

impl DoneInside {
    /// Everything up to this event.
    fn up_to(position: Position) -> Self {
        DoneInside {
            commit_lsn: position.commit_lsn,
            change_lsn: position.change_lsn,
            events: position.ordinal.saturating_add(1),
        }
    }

    /// One that was stored. A tracker can begin with it; but a [`Done`], and so the next one that
    /// is stored, comes from a tracker only.
    pub fn stored(commit_lsn: Lsn, change_lsn: Lsn, events: u64) -> Self {
        DoneInside { commit_lsn, change_lsn, events }
    }

    /// Where the transaction's commit record starts.
    pub fn commit_lsn(self) -> Lsn {
        self.commit_lsn
    }

    /// The last change of which an event is done.
    pub fn change_lsn(self) -> Lsn {
        self.change_lsn
    }

    /// How many events of that change are done.
    pub fn events(self) -> u64 {
        self.events
    }

    /// Whether the event at this position is one of those that are done.
    pub fn covers(self, position: Position) -> bool {
        position.commit_lsn == self.commit_lsn
            && (position.change_lsn, position.ordinal) < (self.change_lsn, self.events)
    }
}

/// How far everything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Done {
    confirmed: ConfirmedLsn,
    inside: Option<DoneInside>,
    /// All tickets with lower numbers are done.
    tickets: u64,
}

impl Done {
    /// What may be confirmed to the server.
    pub fn confirmed(self) -> ConfirmedLsn {
        self.confirmed
    }

    /// How far the transaction after it is done, if any of it is.
    pub fn inside(self) -> Option<DoneInside> {
        self.inside
    }
}

/// A ticket that is not in flight: a report that came twice or from another session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("delivery report for ticket {0}, which is not in flight")]
pub struct UnknownTicket(u64);

impl UnknownTicket {
    /// A ticket that is not in flight.
    pub fn of(ticket: Ticket) -> Self {
        UnknownTicket(ticket.number())
    }
}

/// The events in flight, in the order of the log. `P` is what the watermark is measured in:
/// positions, or rows where a table is read; only positions can become a [`ConfirmedLsn`]. `T` is
/// what the caller gets back with the ticket.
#[derive(Debug)]
pub struct AckTracker<P, T> {
    /// The number of the first slot.
    first: u64,
    /// From the oldest event that is not done to the newest handed out.
    slots: VecDeque<Slot<T>>,
    /// Ends of commits not yet confirmed, each with the first ticket after it. Commits without
    /// events in between share an entry, so there are never more than slots plus one.
    commits: VecDeque<(u64, P)>,
    watermark: P,
    /// Up to the newest event that is done and before which all events are done.
    inside: Option<DoneInside>,
    /// How far the stream has been read.
    seen: P,
    in_flight_events: usize,
    in_flight_bytes: usize,
}

#[derive(Debug)]
struct Slot<T> {
    bytes: usize,
    position: Position,
    /// Gone once the event is done.
    cargo: Option<T>,
}

impl<P: Copy + Ord, T> AckTracker<P, T> {
    /// Everything before this is done.
    pub fn starting_at(watermark: P) -> Self {
        AckTracker {
            first: 0,
            slots: VecDeque::new(),
            commits: VecDeque::new(),
            watermark,
            inside: None,
            seen: watermark,
            in_flight_events: 0,
            in_flight_bytes: 0,
        }
    }

    /// The ticket that the next [`admit`](Self::admit) will put in flight.
    pub fn next_ticket(&self) -> Ticket {
        Ticket::from_number(self.first + self.slots.len() as u64)
    }

    /// An event was taken by the sink under [`next_ticket`](Self::next_ticket).
    pub fn admit(&mut self, bytes: usize, position: Position, cargo: T) {
        self.slots.push_back(Slot { bytes, position, cargo: Some(cargo) });
        self.in_flight_events += 1;
        self.in_flight_bytes += bytes;
    }

    /// A transaction ends after the last event handed out.
    pub fn commit(&mut self, end: P) {
        self.seen = self.seen.max(end);
        let boundary = self.next_ticket().number();
        match self.commits.back_mut() {
            Some((last, lsn)) if *last == boundary => *lsn = (*lsn).max(end),
            _ => self.commits.push_back((boundary, end)),
        }
        self.advance();
    }

    /// An event is done; returns what travelled with it.
    pub fn done(&mut self, ticket: Ticket) -> Result<T, UnknownTicket> {
        let unknown = || UnknownTicket(ticket.number());
        let index = ticket.number().checked_sub(self.first).ok_or_else(unknown)?;
        let index = usize::try_from(index).map_err(|_| unknown())?;
        let slot = self.slots.get_mut(index).ok_or_else(unknown)?;
        let cargo = slot.cargo.take().ok_or_else(unknown)?;
        self.in_flight_events -= 1;
        self.in_flight_bytes -= slot.bytes;
        if index == 0 {
            let mut last = None;
            while let Some(slot) = self.slots.front().filter(|slot| slot.cargo.is_none()) {
                last = Some(slot.position);
                self.slots.pop_front();
                self.first += 1;
            }
            self.inside = last.map(DoneInside::up_to).or(self.inside);
            self.advance();
        }
        Ok(cargo)
    }

    fn advance(&mut self) {
        while let Some((boundary, end)) = self.commits.front().copied() {
            if boundary > self.first {
                break;
            }
            self.watermark = self.watermark.max(end);
            self.commits.pop_front();
        }
    }

    /// Events from the oldest that is not done to the newest, done ones among them. One event that
    /// is never done makes it grow: limit it together with the events in flight.
    pub fn span_events(&self) -> usize {
        self.slots.len()
    }

    /// Everything before this is done.
    pub fn watermark(&self) -> P {
        self.watermark
    }

    /// Events that were done since then, with all before them: they are repeated, together with
    /// those in flight, if nothing more than that is stored.
    pub fn done_since(&self, done: Done) -> usize {
        usize::try_from(self.first.saturating_sub(done.tickets)).unwrap_or(usize::MAX)
    }

    /// What travels with an event in flight.
    pub fn get(&self, ticket: Ticket) -> Option<&T> {
        let index = usize::try_from(ticket.number().checked_sub(self.first)?).ok()?;
        self.slots.get(index)?.cargo.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let index = usize::try_from(ticket.number().checked_sub(self.first)?).ok()?;
        self.slots.get_mut(index)?.cargo.as_mut()
    }

    /// What travels with the events in flight, from the oldest on.
    pub fn in_flight(&self) -> impl Iterator<Item = (Ticket, &T)> {
        let slots = (self.first..).zip(&self.slots);
        slots.filter_map(|(number, slot)| Some((Ticket::from_number(number), slot.cargo.as_ref()?)))
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

impl<T> AckTracker<Lsn, T> {
    /// A session that begins at a position the slot has confirmed. What is done inside the
    /// transaction after it gets no tickets.
    pub fn resume_at(confirmed: Lsn, inside: Option<DoneInside>) -> Self {
        AckTracker { inside, seen: Lsn::ZERO, ..Self::starting_at(confirmed) }
    }

    /// The server has nothing for us up to `wal_end`. Counts only outside a transaction and with
    /// nothing in flight: this keeps an idle outbox from retaining WAL.
    pub fn keepalive(&mut self, wal_end: Lsn, in_transaction: bool) {
        self.seen = self.seen.max(wal_end);
        if !in_transaction && self.in_flight_events == 0 {
            self.watermark = self.watermark.max(wal_end);
        }
    }

    /// What may be confirmed now.
    pub fn confirmed(&self) -> ConfirmedLsn {
        ConfirmedLsn(self.watermark)
    }

    /// What is done now: what may be confirmed, and what may be stored with it.
    pub fn done_so_far(&self) -> Done {
        // The confirmed position is the end of a commit, or after it: that transaction has ended.
        let inside = self.inside.filter(|inside| inside.commit_lsn >= self.watermark);
        Done { confirmed: self.confirmed(), inside, tickets: self.first }
    }

    /// How far the stream has been read: the highest end of a commit, or of the log, that was
    /// received.
    pub fn seen(&self) -> Lsn {
        self.seen
    }
}

#[cfg(test)]
mod tests;
