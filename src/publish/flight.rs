//! What travels with an event in flight, and how long it may stay there.
//!
//! A partition without a leader can keep its records indefinitely while the others continue. So age
//! is measured per event: acknowledgements for other topics prove nothing about it (ADR 23).

use std::time::{Duration, Instant};

use super::outgoing::Outgoing;
use super::raw_event::RawEvent;
use crate::ops::State;
use crate::parking::session::Parking;
use crate::session_end::{RestartReason, SessionEnd};
use crate::sink::Sink;
use postrider_core::delivery::{Obstacle, Ticket};
use postrider_core::envelope::Envelope;
use postrider_core::pgoutput::PgTime;

/// Events in flight without any acknowledgement for this long mean that the broker is unreachable.
const BLOCKED_AFTER: Duration = Duration::from_secs(3);
/// While other events are acknowledged, the oldest one may hold the position for this long before
/// the relay calls itself blocked. Electing a leader takes a few seconds.
const HELD_AFTER: Duration = Duration::from_secs(5);
/// Brokers that still answer this long after an event became the oldest in flight should have
/// acknowledged it. It is longer than the Kafka client needs to give up a request and repeat it.
const STUCK_AFTER: Duration = Duration::from_secs(90);
/// How often the events in flight are checked.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// What travels with an event while it is in flight.
pub(crate) struct Flight {
    pub(crate) route: usize,
    pub(crate) commit_time: PgTime,
    pub(crate) source: RawEvent,
    /// None: the sink does not have it; it is being parked, or has to be retried.
    pub(crate) handover: Option<Handover>,
}

/// When an event was given to the sink.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handover {
    at: Instant,
    /// For how long its timestamp is valid.
    unacknowledged_max: Duration,
}

impl Handover {
    pub(crate) fn new(at: Instant, unacknowledged_max: Duration) -> Self {
        Handover { at, unacknowledged_max }
    }

    fn is_stale(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) > self.unacknowledged_max
    }
}

/// How long the sink has owed us an answer.
pub(crate) struct Waiting {
    /// When something was acknowledged last, or nothing had to be.
    acknowledged_at: Instant,
    /// The oldest event that the sink has, and since when it has been the oldest.
    oldest: Option<(Ticket, Instant)>,
    /// The same of the events whose topic is not ready.
    queued: Option<(Ticket, Instant)>,
    /// The sink has no event that was given to it before this.
    none_before: Instant,
    checked_at: Option<Instant>,
}

impl Waiting {
    pub(crate) fn new(now: Instant) -> Self {
        Waiting {
            acknowledged_at: now,
            oldest: None,
            queued: None,
            none_before: now,
            checked_at: None,
        }
    }

    /// Something was acknowledged, or there is nothing to wait for.
    pub(crate) fn note_acknowledged(&mut self, now: Instant) {
        self.acknowledged_at = now;
    }

    /// Checks the events in flight now and then; ends the session when the timestamp of one of them
    /// has become so old that its topic's retention could delete it as soon as it is acknowledged.
    pub(crate) fn check<S: Sink, P: Copy + Ord>(
        &mut self,
        out: &Outgoing<'_, S, P>,
        now: Instant,
    ) -> Result<(), SessionEnd> {
        if self.checked_at.is_some_and(|at| now.saturating_duration_since(at) < CHECK_EVERY) {
            return Ok(());
        }
        self.checked_at = Some(now);
        let oldest_owed = out.owed().next().map(|(ticket, _)| ticket);
        self.queued = since(self.queued, out.queues.oldest(), now);
        self.oldest = since(self.oldest, oldest_owed, now);
        if self.oldest.is_none() {
            self.none_before = out.now;
            return Ok(());
        }
        let owed = out.owed().filter_map(|(ticket, flight)| Some((ticket, flight.handover?)));
        let stale = self.find_stale(owed, out.stamp_wait_min, out.now, now);
        match stale.and_then(|ticket| out.acks.get(ticket)) {
            None => Ok(()),
            Some(flight) => Err(SessionEnd::restart(
                RestartReason::Stamps,
                format!(
                    "an event for topic {:?} has not been acknowledged for {} s; restarting to \
                     give it a new timestamp before the topic's retention could delete it",
                    flight.topic(out.envelope),
                    flight.age(now).as_secs(),
                ),
            )),
        }
    }

    /// An event whose timestamp has expired. All of them are checked only if one can have
    /// waited that long. The oldest alone proves nothing: it may have waited for its topic, or been
    /// retried, and so have been given to the sink after those that follow it. `turn` is not later
    /// than anything that is given to the sink from now on.
    fn find_stale(
        &mut self,
        owed: impl Iterator<Item = (Ticket, Handover)>,
        stamp_wait_min: Duration,
        turn: Instant,
        now: Instant,
    ) -> Option<Ticket> {
        if now.saturating_duration_since(self.none_before) <= stamp_wait_min {
            return None;
        }
        let mut none_before = turn;
        for (ticket, handover) in owed {
            if handover.is_stale(now) {
                return Some(ticket);
            }
            none_before = none_before.min(handover.at);
        }
        self.none_before = none_before;
        None
    }

    /// Why the relay is blocked, if it is; `held` is how many more events wait to be given to the
    /// sink.
    fn blocked<S: Sink, P: Copy + Ord>(
        &self,
        out: &Outgoing<'_, S, P>,
        held: usize,
        now: Instant,
    ) -> Option<String> {
        let unacknowledged = now.saturating_duration_since(self.acknowledged_at);
        let events = out.acks.in_flight_events() + held;
        let oldest = self.oldest.into_iter().chain(self.queued).min_by_key(|(_, since)| *since);
        let topic = || {
            let (ticket, _) = oldest?;
            out.acks.get(ticket).map(|flight| flight.topic(out.envelope))
        };
        let what = if (out.is_waiting() || held > 0) && unacknowledged > BLOCKED_AFTER {
            let topic = topic().map(|topic| format!(", the oldest for topic {topic:?}"));
            let (seconds, topic) = (unacknowledged.as_secs(), topic.unwrap_or_default());
            let wait = if events == 1 { "event waits" } else { "events wait" };
            format!("the broker has acknowledged nothing for {seconds} s ({events} {wait}{topic})")
        } else {
            let (_, since) = oldest?;
            let held_for = now.saturating_duration_since(since);
            if held_for <= HELD_AFTER {
                return None;
            }
            format!(
                "topic {:?} holds the position: its oldest event has not been acknowledged for {} \
                 s, while other events are ({events} in flight)",
                topic()?,
                held_for.as_secs(),
            )
        };
        let why = out.sink.obstacle().map(|it| format!(": {}", it.text)).unwrap_or_default();
        Some(format!("{what}{why}"))
    }

    /// The state of a relay that can't publish, and why; None: nothing is in the way.
    pub(crate) fn trouble<S: Sink, P: Copy + Ord>(
        &self,
        out: &Outgoing<'_, S, P>,
        held: usize,
        now: Instant,
    ) -> Option<(State, String)> {
        if let Some(breaker) = out.parking.as_ref().and_then(Parking::why_breaker_is_open) {
            return Some((State::BreakerOpen, breaker));
        }
        let certain = || match out.sink.obstacle() {
            Some(Obstacle { text, certain: true }) => Some(text),
            _ => None,
        };
        self.blocked(out, held, now).or_else(certain).map(|why| (State::BlockedOnBroker, why))
    }

    /// Whether the brokers are reachable, but the producer makes no progress.
    pub(crate) fn is_stuck(&self, answered_at: Option<Instant>) -> bool {
        let Some(((_, since), answered_at)) = self.oldest.zip(answered_at) else { return false };
        answered_at.saturating_duration_since(since) > STUCK_AFTER
    }
}

/// The oldest event, and since when it has been that.
fn since(
    before: Option<(Ticket, Instant)>,
    oldest: Option<Ticket>,
    now: Instant,
) -> Option<(Ticket, Instant)> {
    let oldest = oldest?;
    Some(before.filter(|(before, _)| *before == oldest).unwrap_or((oldest, now)))
}

impl Flight {
    /// For people.
    fn topic(&self, envelope: &Envelope) -> String {
        self.source.read(|row| Ok(envelope.topic_for_log(row))).unwrap_or_default()
    }

    fn age(&self, now: Instant) -> Duration {
        self.handover.map_or(Duration::ZERO, |it| now.saturating_duration_since(it.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brokers_that_answer_long_after_can_be_stuck_with() {
        let since = Instant::now() + STUCK_AFTER;
        let second = Duration::from_secs(1);
        let check = |answered_at: Option<Instant>, stuck: bool| {
            let oldest = Some((Ticket::from_number(7), since));
            let waiting = Waiting { oldest, ..Waiting::new(since) };
            assert_eq!(waiting.is_stuck(answered_at), stuck, "{answered_at:?}");
        };
        check(None, false);
        check(Some(since - second), false);
        check(Some(since + STUCK_AFTER), false);
        check(Some(since + STUCK_AFTER + second), true);
        assert!(!Waiting::new(since).is_stuck(Some(since + 2 * STUCK_AFTER)));
    }

    #[test]
    fn a_stamp_is_good_for_as_long_as_its_topic_allows() {
        let now = Instant::now();
        let handover = Handover::new(now, Duration::from_secs(5));
        assert!(!handover.is_stale(now + Duration::from_secs(5)));
        assert!(handover.is_stale(now + Duration::from_secs(6)));
        assert!(!Handover::new(now, Duration::MAX).is_stale(now + Duration::from_secs(6)));
    }

    #[test]
    fn an_event_that_was_handed_over_late_does_not_hide_a_staler_one_behind_it() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let allowed = Duration::from_secs(5);
        let mut waiting = Waiting::new(begun);
        // The first waited for its topic.
        let owed = [(1, 9), (2, 4), (3, 6)].map(|(number, handed_over)| {
            (Ticket::from_number(number), Handover::new(at(handed_over), allowed))
        });
        let mut find = |now: u64| waiting.find_stale(owed.into_iter(), allowed, at(now), at(now));
        assert_eq!(find(9), None);
        assert_eq!(find(10), Some(Ticket::from_number(2)));
    }

    #[test]
    fn events_are_looked_at_only_when_one_can_be_stale() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let allowed = Duration::from_secs(5);
        let mut waiting = Waiting::new(begun);
        let mut check = |now: u64, handed_over: u64, is_checked_at: bool| {
            let mut looked = 0;
            let event = (Ticket::from_number(now), Handover::new(at(handed_over), allowed));
            let owed = std::iter::once(event).inspect(|_| looked += 1);
            assert_eq!(waiting.find_stale(owed, allowed, at(now), at(now)), None);
            assert_eq!(looked > 0, is_checked_at, "after {now} s");
        };
        check(5, 4, false);
        check(6, 4, true);
        check(9, 8, false);
        check(10, 9, true);
        check(14, 13, false);
    }
}
