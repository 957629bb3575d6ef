//! The tracker against a model of its rules.

use proptest::prelude::*;

use super::*;
use crate::pgoutput::PgTime;
use crate::transaction::Transactions;

/// The rules, written as plainly as possible: all events and commits in order, and the watermark
/// found by checking every one of them.
#[derive(Default)]
struct Model {
    log: Vec<Entry>,
    confirmed: u64,
}

enum Entry {
    Event { done: bool, bytes: usize, position: Position },
    Commit(u64),
}

impl Model {
    fn advance(&mut self) {
        let prefix = self.log.iter().take_while(|e| !matches!(e, Entry::Event { done: false, .. }));
        let ends = prefix.filter_map(|e| match e {
            Entry::Commit(end) => Some(*end),
            Entry::Event { .. } => None,
        });
        self.confirmed = ends.fold(self.confirmed, u64::max);
    }

    /// The last event of those that are done from the beginning on, unless its commit is among
    /// them.
    fn inside(&self) -> Option<Position> {
        let prefix = self.log.iter().take_while(|e| !matches!(e, Entry::Event { done: false, .. }));
        match prefix.last() {
            Some(Entry::Event { position, .. }) => Some(*position),
            _ => None,
        }
    }

    fn in_transaction(&self) -> bool {
        matches!(self.log.last(), Some(Entry::Event { .. }))
    }

    fn in_flight(&self) -> Vec<usize> {
        let open = self.log.iter().filter_map(|e| match e {
            Entry::Event { done: false, bytes, .. } => Some(*bytes),
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
    /// At the same LSN as the last one, or at the next.
    Event {
        bytes: usize,
        next_change: bool,
    },
    Commit {
        advance: u64,
    },
    Keepalive {
        wal_end: u64,
        in_transaction: bool,
    },
    Done {
        number: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..2000usize, any::<bool>())
            .prop_map(|(bytes, next_change)| Step::Event { bytes, next_change }),
        2 => (2..50u64).prop_map(|advance| Step::Commit { advance }),
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
        let mut tracker = AckTracker::resume_at(Lsn::ZERO, None);
        let nothing = tracker.done_so_far();
        let mut transactions = Transactions::new();
        let (mut end, mut events, mut change) = (0, 0u64, 1);
        for step in steps {
            match step {
                Step::Event { bytes, next_change } => {
                    if !transactions.is_open() {
                        // The commit record is after the confirmed position, and ends later.
                        transactions.begin(Lsn::new(end + 1), PgTime(0)).unwrap();
                    }
                    change += u64::from(next_change);
                    let (position, _) = transactions.event(Lsn::new(change)).unwrap();
                    prop_assert_eq!(tracker.next_ticket(), Ticket::from_number(events));
                    tracker.admit(bytes, position, events);
                    model.log.push(Entry::Event { done: false, bytes, position });
                    events += 1;
                }
                Step::Commit { advance } => {
                    if let Some(commit_lsn) = transactions.commit_lsn() {
                        transactions.commit(commit_lsn, Lsn::new(end + advance)).unwrap();
                    }
                    end += advance;
                    tracker.commit(Lsn::new(end));
                    model.log.push(Entry::Commit(end));
                }
                Step::Keepalive { wal_end, in_transaction } => {
                    let in_transaction = in_transaction || model.in_transaction();
                    // Later commits are after it.
                    end = if in_transaction { end } else { end.max(wal_end) };
                    tracker.keepalive(Lsn::new(wal_end), in_transaction);
                    if !in_transaction && model.in_flight().is_empty() {
                        model.confirmed = model.confirmed.max(wal_end);
                    }
                }
                Step::Done { number } => {
                    let result = tracker.done(Ticket::from_number(number as u64));
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
            let done = tracker.done_so_far();
            prop_assert_eq!(done.confirmed, tracker.confirmed());
            prop_assert_eq!(tracker.done_since(nothing) + model.span(), events as usize);
            prop_assert_eq!(tracker.done_since(done), 0);
            prop_assert_eq!(done.inside, model.inside().map(DoneInside::up_to));
            for entry in &model.log {
                let Entry::Event { done: is_done, position, .. } = entry else { continue };
                let covered = done.inside.is_some_and(|inside| inside.covers(*position));
                prop_assert!(*is_done || !covered, "{:?} is skipped and not done", position);
            }
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
    let mut tracker = AckTracker::resume_at(Lsn::new(5), None);
    tracker.commit(Lsn::new(10));
    assert_eq!(tracker.confirmed().lsn(), Lsn::new(10));
    let ticket = tracker.next_ticket();
    tracker.admit(1, at(15, 12, 0), ());
    tracker.commit(Lsn::new(20));
    tracker.commit(Lsn::new(30));
    assert_eq!(tracker.confirmed().lsn(), Lsn::new(10));
    tracker.keepalive(Lsn::new(40), false);
    assert_eq!(tracker.confirmed().lsn(), Lsn::new(10), "something is in flight");
    assert_eq!(tracker.done(ticket), Ok(()));
    assert_eq!(tracker.confirmed().lsn(), Lsn::new(30));
}

fn at(commit: u64, change: u64, ordinal: u64) -> Position {
    let (commit_lsn, change_lsn) = (Lsn::new(commit), Lsn::new(change));
    Position { commit_lsn, change_lsn, ordinal, in_transaction: 0 }
}

#[test]
fn only_a_beginning_of_its_own_transaction_is_covered() {
    let inside = DoneInside::up_to(at(50, 20, 1));
    for (position, expect) in [
        (at(50, 10, 7), true),
        (at(50, 20, 0), true),
        (at(50, 20, 1), true),
        (at(50, 20, 2), false),
        (at(50, 21, 0), false),
        (at(49, 20, 0), false),
        (at(51, 20, 0), false),
    ] {
        assert_eq!(inside.covers(position), expect, "{position:?}");
    }
}

#[test]
fn a_session_goes_on_where_the_last_one_was_inside_a_transaction() {
    let stored = DoneInside::stored(Lsn::new(50), Lsn::new(20), 2);
    let mut tracker = AckTracker::resume_at(Lsn::new(5), Some(stored));
    assert_eq!(tracker.done_so_far().inside, Some(stored));
    let tickets: Vec<Ticket> = [at(50, 20, 2), at(50, 30, 0)]
        .map(|position| {
            let ticket = tracker.next_ticket();
            tracker.admit(1, position, ());
            ticket
        })
        .to_vec();
    tracker.done(tickets[1]).unwrap();
    assert_eq!(tracker.done_so_far().inside, Some(stored), "one before it is not done");
    tracker.done(tickets[0]).unwrap();
    assert_eq!(tracker.done_so_far().inside, Some(DoneInside::up_to(at(50, 30, 0))));
    tracker.commit(Lsn::new(60));
    assert_eq!(tracker.done_so_far().inside, None, "the transaction has ended");
    assert_eq!(tracker.confirmed().lsn(), Lsn::new(60));
}
