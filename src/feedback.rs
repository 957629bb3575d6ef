//! When to report which position to the server. No I/O; the clock is an argument.
//!
//! A report goes out
//! - when the watermark has moved: after [`EVENTS_MAX`] events or [`MOVED_AFTER`], whichever comes
//!   first, so that a kill repeats little;
//! - when the server asks: at once if the position is news, else at most every [`MOVED_AFTER`].
//!   A server that is stopping asks again the moment it is answered; without this bound the two
//!   would answer each other thousands of times a second while the position is held;
//! - otherwise every second, or half of `wal_sender_timeout` if that is shorter.

use std::time::{Duration, Instant};

use crate::lsn::Lsn;

/// How long a moved watermark may wait.
pub const MOVED_AFTER: Duration = Duration::from_millis(100);
/// How many events done a moved watermark may wait for.
pub const EVENTS_MAX: u64 = 1000;
/// How often the server hears from us when there is no news.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What was told to the server and when.
#[derive(Debug)]
pub struct Feedback {
    heartbeat: Duration,
    sent: Option<(Instant, Lsn)>,
    events_done: u64,
    asked: bool,
}

impl Feedback {
    /// A new session. `wal_sender_timeout` of zero means that the server never gives up on us.
    pub fn new(wal_sender_timeout: Duration) -> Self {
        let heartbeat = match wal_sender_timeout {
            Duration::ZERO => HEARTBEAT,
            timeout => HEARTBEAT.min(timeout / 2),
        };
        Feedback { heartbeat, sent: None, events_done: 0, asked: false }
    }

    /// Events were acknowledged since the last call.
    pub fn events_done(&mut self, count: u64) {
        self.events_done += count;
    }

    /// The server wants an answer.
    pub fn asked(&mut self) {
        self.asked = true;
    }

    /// When the next report is due if the watermark stays where it is; never later than a heartbeat.
    pub fn due(&self, watermark: Lsn, now: Instant) -> Instant {
        let Some((sent_at, sent)) = self.sent else {
            return now;
        };
        let moved = watermark > sent;
        if moved && (self.asked || self.events_done >= EVENTS_MAX) {
            now
        } else if moved || self.asked {
            sent_at + MOVED_AFTER
        } else {
            sent_at + self.heartbeat
        }
    }

    /// A report has been sent.
    pub fn sent(&mut self, watermark: Lsn, now: Instant) {
        self.sent = Some((now, watermark));
        self.events_done = 0;
        self.asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_secs(60);

    fn lsn(bytes: u64) -> Lsn {
        Lsn::new(bytes)
    }

    fn after_first_report(timeout: Duration) -> (Feedback, Instant) {
        let start = Instant::now();
        let mut feedback = Feedback::new(timeout);
        assert_eq!(feedback.due(lsn(10), start), start, "the first report is due at once");
        feedback.sent(lsn(10), start);
        (feedback, start)
    }

    #[test]
    fn quiet_means_heartbeats() {
        for (timeout, beat) in [(FAR, 1000), (Duration::ZERO, 1000), (Duration::from_secs(1), 500)]
        {
            let (feedback, start) = after_first_report(timeout);
            assert_eq!(feedback.due(lsn(10), start), start + Duration::from_millis(beat));
        }
    }

    #[test]
    fn news_wait_a_tenth_of_a_second_or_a_thousand_events() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.events_done(EVENTS_MAX - 1);
        assert_eq!(feedback.due(lsn(11), start), start + MOVED_AFTER);
        feedback.events_done(1);
        assert_eq!(feedback.due(lsn(11), start), start);
        feedback.sent(lsn(11), start);
        assert_eq!(feedback.due(lsn(12), start), start + MOVED_AFTER, "the count begins anew");
    }

    #[test]
    fn many_events_without_a_commit_are_no_news() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.events_done(1_000_000);
        assert_eq!(feedback.due(lsn(10), start), start + HEARTBEAT);
    }

    #[test]
    fn a_server_that_asks_hears_news_at_once_and_repetitions_rarely() {
        let (mut feedback, start) = after_first_report(FAR);
        feedback.asked();
        assert_eq!(feedback.due(lsn(10), start), start + MOVED_AFTER);
        assert_eq!(feedback.due(lsn(11), start), start);
        feedback.sent(lsn(11), start);
        assert_eq!(feedback.due(lsn(11), start), start + HEARTBEAT, "answered once");
    }
}
