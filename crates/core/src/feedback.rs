//! When to store which position, and when to report to the server. No I/O; the clock is an
//! argument.
//!
//! Only a stored position is reported to the server, so a moved watermark is stored first, with how
//! far the transaction after it is done,
//! - after [`EVENTS_MAX`] events or [`MOVED_AFTER`], whichever comes first, so that a kill repeats
//!   few events;
//! - if it moved without events, after `SETTLED_AFTER` if it moved far, or for the first time
//!   since events; else every `IDLE_EVERY`: storing a position writes to the log, which moves the
//!   watermark again. A position that somebody waits for is stored after [`MOVED_AFTER`].
//!
//! A report goes out
//! - when a position was stored;
//! - when the server asks, but a repeated position at most every [`MOVED_AFTER`]. A server that is
//!   stopping asks again as soon as it is answered; without this limit the two would answer each
//!   other thousands of times a second while the position is held;
//! - otherwise every second, or half of `wal_sender_timeout` if that is shorter.

use std::time::{Duration, Instant};

use crate::ack::Done;
use crate::lsn::Lsn;

/// How long a moved watermark may wait.
pub const MOVED_AFTER: Duration = Duration::from_millis(100);
/// After how many events that are done a moved watermark is stored.
pub const EVENTS_MAX: u64 = 500;
/// How long a watermark that only keepalives have moved may wait.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// The same if our own writes may have moved it.
const IDLE_EVERY: Duration = Duration::from_secs(10);
/// More than storing a few positions adds to the log, even with a full-page image.
const FAR_BYTES: u64 = 64 * 1024;
/// How often a report is sent when nothing has changed.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What was last handed over to be stored.
#[derive(Debug, Clone, Copy)]
struct LastStore {
    done: Done,
    at: Instant,
    /// Events had moved it.
    by_events: bool,
}

/// What was stored, what was reported to the server, and when.
#[derive(Debug)]
pub struct Feedback {
    heartbeat: Duration,
    last_store: LastStore,
    reported_at: Option<Instant>,
    /// A position was stored and is not yet reported.
    has_unreported: bool,
    events_done: u64,
    awaited: Lsn,
    asked: bool,
    hurry: bool,
}

impl Feedback {
    /// A new session, which begins at a stored position. `wal_sender_timeout` of zero means that
    /// the server never times out.
    pub fn new(stored: Done, wal_sender_timeout: Duration, now: Instant) -> Self {
        let heartbeat = match wal_sender_timeout {
            Duration::ZERO => HEARTBEAT,
            timeout => HEARTBEAT.min(timeout / 2),
        };
        Feedback {
            heartbeat,
            last_store: LastStore { done: stored, at: now, by_events: true },
            reported_at: None,
            has_unreported: false,
            events_done: 0,
            awaited: Lsn::ZERO,
            asked: false,
            hurry: false,
        }
    }

    /// Events were acknowledged since the last call.
    pub fn events_done(&mut self, count: u64) {
        self.events_done += count;
    }

    /// Somebody waits until this position is stored.
    pub fn set_awaited(&mut self, position: Lsn) {
        self.awaited = position;
    }

    /// The server wants an answer.
    pub fn reply_requested(&mut self) {
        self.asked = true;
    }

    /// The session is about to end: a moved watermark is to be stored at once.
    pub fn hurry(&mut self) {
        self.hurry = true;
    }

    /// When the events that are done are to be stored, if at all.
    pub fn store_due(&self, done: Done, now: Instant) -> Option<Instant> {
        let LastStore { done: stored, at, by_events } = self.last_store;
        if done <= stored {
            return None;
        }
        let (watermark, stored) = (done.confirmed().lsn(), stored.confirmed().lsn());
        let is_far = watermark.bytes().saturating_sub(stored.bytes()) > FAR_BYTES;
        Some(match self.events_done {
            _ if self.hurry => now,
            0 if stored < self.awaited => at + MOVED_AFTER,
            0 if by_events || is_far => at + SETTLED_AFTER,
            0 => at + IDLE_EVERY,
            EVENTS_MAX.. => now,
            _ => at + MOVED_AFTER,
        })
    }

    /// The events that are done were handed over to be stored.
    pub fn store_started(&mut self, done: Done, now: Instant) {
        self.last_store = LastStore { done, at: now, by_events: self.events_done > 0 };
        self.events_done = 0;
    }

    /// A position has been stored.
    pub fn store_finished(&mut self) {
        self.has_unreported = true;
    }

    /// When the next report is due; never later than a heartbeat.
    pub fn report_due(&self, now: Instant) -> Instant {
        match self.reported_at {
            None => now,
            Some(_) if self.has_unreported => now,
            Some(reported_at) if self.asked => reported_at + MOVED_AFTER,
            Some(reported_at) => reported_at + self.heartbeat,
        }
    }

    /// A report has been sent.
    pub fn reported(&mut self, now: Instant) {
        self.reported_at = Some(now);
        self.has_unreported = false;
        self.asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack::{AckTracker, DoneInside};

    const FAR: Duration = Duration::from_secs(60);

    fn lsn(bytes: u64) -> Done {
        AckTracker::<Lsn, ()>::resume_at(Lsn::new(bytes), None).done_so_far()
    }

    /// This many events of one change of the transaction after it are done, too.
    fn inside(bytes: u64, events: u64) -> Done {
        let inside = DoneInside::stored(Lsn::new(bytes + 100), Lsn::new(bytes + 1), events);
        AckTracker::<Lsn, ()>::resume_at(Lsn::new(bytes), Some(inside)).done_so_far()
    }

    fn after_first_report(timeout: Duration) -> (Feedback, Instant) {
        let start = Instant::now();
        let mut feedback = Feedback::new(lsn(10), timeout, start);
        assert_eq!(feedback.report_due(start), start, "the first report is due at once");
        feedback.reported(start);
        (feedback, start)
    }

    #[test]
    fn quiet_means_heartbeats() {
        for (timeout, beat) in [(FAR, 1000), (Duration::ZERO, 1000), (Duration::from_secs(1), 500)]
        {
            let (feedback, start) = after_first_report(timeout);
            assert_eq!(feedback.report_due(start), start + Duration::from_millis(beat));
            assert_eq!(feedback.store_due(lsn(10), start), None);
        }
    }

    #[test]
    fn news_are_stored_after_a_tenth_of_a_second_or_a_thousand_events() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.events_done(EVENTS_MAX - 1);
        assert_eq!(feedback.store_due(lsn(11), start), Some(start + MOVED_AFTER));
        feedback.events_done(1);
        assert_eq!(feedback.store_due(lsn(11), start), Some(start));
        feedback.store_started(lsn(11), start);
        assert_eq!(feedback.store_due(lsn(11), start), None);
        feedback.events_done(1);
        let due = feedback.store_due(lsn(12), start);
        assert_eq!(due, Some(start + MOVED_AFTER), "the count starts again");
    }

    #[test]
    fn what_is_stored_is_told_at_once() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.events_done(EVENTS_MAX);
        feedback.store_started(lsn(11), start);
        assert_eq!(feedback.report_due(start), start + HEARTBEAT, "not before it is stored");
        feedback.store_finished();
        assert_eq!(feedback.report_due(start), start);
        feedback.reported(start);
        assert_eq!(feedback.report_due(start), start + HEARTBEAT);
    }

    #[test]
    fn what_moves_without_events_is_stored_rarely() {
        let (mut feedback, start) = after_first_report(FAR);
        assert_eq!(feedback.store_due(lsn(11), start), Some(start + SETTLED_AFTER));
        feedback.store_started(lsn(11), start);
        assert_eq!(feedback.store_due(lsn(12), start), Some(start + IDLE_EVERY));
        let far = lsn(12 + FAR_BYTES);
        assert_eq!(feedback.store_due(far, start), Some(start + SETTLED_AFTER));
        feedback.events_done(1);
        feedback.store_started(lsn(12), start);
        assert_eq!(feedback.store_due(lsn(13), start), Some(start + SETTLED_AFTER));
    }

    #[test]
    fn what_somebody_waits_for_is_stored_soon() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.store_started(lsn(11), start);
        feedback.set_awaited(Lsn::new(12));
        assert_eq!(feedback.store_due(lsn(12), start), Some(start + MOVED_AFTER));
        feedback.store_started(lsn(12), start);
        assert_eq!(feedback.store_due(lsn(13), start), Some(start + IDLE_EVERY));
    }

    #[test]
    fn what_is_done_inside_a_transaction_is_stored_as_a_commit_is() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.events_done(1);
        assert_eq!(feedback.store_due(inside(10, 1), start), Some(start + MOVED_AFTER));
        feedback.events_done(EVENTS_MAX);
        assert_eq!(feedback.store_due(inside(10, 1001), start), Some(start));
        feedback.store_started(inside(10, 1001), start);
        assert_eq!(feedback.store_due(inside(10, 1001), start), None);
        feedback.events_done(1);
        assert_eq!(feedback.store_due(lsn(200), start), Some(start + MOVED_AFTER), "the commit");
        feedback.hurry();
        assert_eq!(feedback.store_due(inside(10, 1002), start), Some(start), "a stop");
    }

    #[test]
    fn many_events_that_do_not_move_what_is_done_are_no_news() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.events_done(1_000_000);
        assert_eq!(feedback.store_due(lsn(10), start), None);
    }

    #[test]
    fn at_the_end_nothing_waits() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.hurry();
        assert_eq!(feedback.store_due(lsn(11), start), Some(start));
        assert_eq!(feedback.store_due(lsn(10), start), None);
    }

    #[test]
    fn a_server_that_asks_hears_repetitions_rarely() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.reply_requested();
        assert_eq!(feedback.report_due(start), start + MOVED_AFTER);
        feedback.reported(start);
        assert_eq!(feedback.report_due(start), start + HEARTBEAT, "answered once");
    }
}
