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

impl UnknownTicket {
    /// A ticket that is not in flight.
    pub(crate) fn of(ticket: Ticket) -> Self {
        UnknownTicket(ticket.0)
    }
}

/// What is in flight, in the order of the log. `T` is what the caller wants back with the ticket.
#[derive(Debug)]
pub struct AckTracker<T> {
    /// The number of the first slot.
    first: u64,
    /// From the oldest event that is not done to the newest handed out.
    slots: VecDeque<Slot<T>>,
    /// Ends of commits not yet confirmed, each with the first ticket behind it. Commits without
    /// events in between share an entry, so there are never more than slots plus one.
    commits: VecDeque<(u64, Lsn)>,
    confirmed: Lsn,
    /// How far the stream has come.
    seen: Lsn,
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
            seen: Lsn::ZERO,
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
        self.slots.push_back(Slot { bytes, cargo: Some(cargo) });
        self.in_flight_events += 1;
        self.in_flight_bytes += bytes;
    }

    /// A transaction ends behind the last event handed out.
    pub fn commit(&mut self, end: Lsn) {
        self.seen = self.seen.max(end);
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
        self.seen = self.seen.max(wal_end);
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

    /// Events from the oldest that is not done to the newest, done ones among them. One event that is
    /// never done makes it grow: bound it together with what is in flight.
    pub fn span_events(&self) -> usize {
        self.slots.len()
    }

    /// What may be confirmed now.
    pub fn confirmed(&self) -> ConfirmedLsn {
        ConfirmedLsn(self.confirmed)
    }

    /// How far the stream has come: the highest end of a commit, or of the log, that was received.
    pub fn seen(&self) -> Lsn {
        self.seen
    }

    /// What travels with an event in flight.
    pub fn get(&self, ticket: Ticket) -> Option<&T> {
        let index = usize::try_from(ticket.0.checked_sub(self.first)?).ok()?;
        self.slots.get(index)?.cargo.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let index = usize::try_from(ticket.0.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(index)?.cargo.as_mut()
    }

    /// What travels with the events in flight, from the oldest on.
    pub fn in_flight(&self) -> impl Iterator<Item = (Ticket, &T)> {
        let slots = (self.first..).zip(&self.slots);
        slots.filter_map(|(number, slot)| Some((Ticket(number), slot.cargo.as_ref()?)))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the rules say, written as plainly as possible: all events and commits in order, and the
    /// watermark found by looking at every one of them.
    #[derive(Default)]
    struct Model {
        log: Vec<Entry>,
        confirmed: u64,
    }

    enum Entry {
        Event { done: bool, bytes: usize },
        Commit(u64),
    }

    impl Model {
        fn advance(&mut self) {
            let prefix =
                self.log.iter().take_while(|e| !matches!(e, Entry::Event { done: false, .. }));
            let ends = prefix.filter_map(|e| match e {
                Entry::Commit(end) => Some(*end),
                Entry::Event { .. } => None,
            });
            self.confirmed = ends.fold(self.confirmed, u64::max);
        }

        fn in_flight(&self) -> Vec<usize> {
            let open = self.log.iter().filter_map(|e| match e {
                Entry::Event { done: false, bytes } => Some(*bytes),
                _ => None,
            });
            open.collect()
        }

        fn span(&self) -> usize {
            let events = self.log.iter().filter(|e| matches!(e, Entry::Event { .. }));
            events.skip_while(|e| matches!(e, Entry::Event { done: true, .. })).count()
        }

        fn event_mut(&mut self, number: usize) -> Option<&mut bool> {
            let mut events = self.log.iter_mut().filter_map(|e| match e {
                Entry::Event { done, .. } => Some(done),
                Entry::Commit(_) => None,
            });
            events.nth(number)
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Event { bytes: usize },
        Commit { advance: u64 },
        Keepalive { wal_end: u64, in_transaction: bool },
        Done { number: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..2000usize).prop_map(|bytes| Step::Event { bytes }),
            2 => (1..50u64).prop_map(|advance| Step::Commit { advance }),
            1 => (0..3000u64, any::<bool>())
                .prop_map(|(wal_end, in_transaction)| Step::Keepalive { wal_end, in_transaction }),
            5 => (0..60usize).prop_map(|number| Step::Done { number }),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn follows_the_model(steps in steps()) {
            let mut model = Model::default();
            let mut tracker = AckTracker::resume_at(Lsn::ZERO);
            let (mut end, mut events) = (0, 0u64);
            for step in steps {
                match step {
                    Step::Event { bytes } => {
                        prop_assert_eq!(tracker.next_ticket(), Ticket(events));
                        tracker.admit(bytes, events);
                        model.log.push(Entry::Event { done: false, bytes });
                        events += 1;
                    }
                    Step::Commit { advance } => {
                        end += advance;
                        tracker.commit(Lsn::new(end));
                        model.log.push(Entry::Commit(end));
                    }
                    Step::Keepalive { wal_end, in_transaction } => {
                        tracker.keepalive(Lsn::new(wal_end), in_transaction);
                        if !in_transaction && model.in_flight().is_empty() {
                            model.confirmed = model.confirmed.max(wal_end);
                        }
                    }
                    Step::Done { number } => {
                        let result = tracker.done(Ticket(number as u64));
                        match model.event_mut(number) {
                            Some(done) if !*done => {
                                *done = true;
                                prop_assert_eq!(result, Ok(number as u64));
                            }
                            _ => prop_assert_eq!(result, Err(UnknownTicket(number as u64))),
                        }
                    }
                }
                model.advance();
                let in_flight = model.in_flight();
                prop_assert_eq!(tracker.confirmed().lsn(), Lsn::new(model.confirmed));
                prop_assert_eq!(tracker.in_flight_events(), in_flight.len());
                prop_assert_eq!(tracker.in_flight_bytes(), in_flight.iter().sum::<usize>());
                prop_assert_eq!(tracker.in_flight().count(), in_flight.len());
                prop_assert!(tracker.in_flight().all(|(ticket, it)| ticket.number() == *it));
                prop_assert_eq!(tracker.span_events(), model.span());
                prop_assert!(tracker.commits.len() <= tracker.span_events() + 1);
            }
        }
    }

    #[test]
    fn a_commit_without_events_is_confirmed_only_behind_what_is_in_flight() {
        let mut tracker = AckTracker::resume_at(Lsn::new(5));
        tracker.commit(Lsn::new(10));
        assert_eq!(tracker.confirmed().lsn(), Lsn::new(10));
        let ticket = tracker.next_ticket();
        tracker.admit(1, ());
        tracker.commit(Lsn::new(20));
        tracker.commit(Lsn::new(30));
        assert_eq!(tracker.confirmed().lsn(), Lsn::new(10));
        tracker.keepalive(Lsn::new(40), false);
        assert_eq!(tracker.confirmed().lsn(), Lsn::new(10), "something is in flight");
        assert_eq!(tracker.done(ticket), Ok(()));
        assert_eq!(tracker.confirmed().lsn(), Lsn::new(30));
    }
}
