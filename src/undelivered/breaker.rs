//! The circuit breaker: one mistake must not pour the whole outbox into the side table. No I/O; the
//! clock is an argument.
//!
//! It opens when, within a window, more than so many events *and* more than a share of all events
//! were parked, or when the side table holds more than so many bytes. All events are those published,
//! parked, and on their way. While it is open nothing is parked and the position is held. An event
//! that can be tried again is the probe: once it is published the breaker closes. An event that can't
//! be published by any probe is let through when a window has passed: waiting would not help it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Class;

/// A window is counted in so many parts.
const PARTS: u32 = 20;
/// How often the held event is tried.
pub(crate) const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Moments kept of which it is known how much had been parked.
const MARKS_MAX: usize = 100;

/// When to open.
#[derive(Debug, Clone)]
pub(crate) struct BreakerLimits {
    pub(crate) events: u64,
    pub(crate) share: f64,
    pub(crate) window: Duration,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Part {
    since: Instant,
    parked: u64,
    all: u64,
}

/// Why it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Too many events.
    Events,
    /// Too many bytes.
    Bytes,
    /// Too many ordering keys.
    Keys,
}

/// An event that is to be parked.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) class: Class,
    pub(crate) bytes: u64,
    /// Events on their way to the destination: an event can be parked at once, while its neighbours
    /// take their time.
    pub(crate) owed: u64,
    /// Its key is not held yet, and there are as many held keys as may be.
    pub(crate) one_key_too_many: bool,
    /// Some of its transaction is parked already. None of that can leave before all of the transaction
    /// is done, so to hold its rest back for bytes would be to hold it for ever.
    pub(crate) belongs_to_parked: bool,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    limits: BreakerLimits,
    parts: VecDeque<Part>,
    /// Bytes of events in the side table that are not done.
    live_bytes: u64,
    /// Bytes parked in all, and how many it were at earlier moments: a count of the side table is
    /// old news, and says nothing about what was parked after it began.
    parked_bytes: u64,
    marks: VecDeque<(Instant, u64)>,
    open: Option<(Instant, Cause)>,
    probe_at: Instant,
}

impl Breaker {
    pub(crate) fn new(limits: BreakerLimits, live_bytes: u64, now: Instant) -> Self {
        Breaker {
            limits,
            parts: VecDeque::new(),
            live_bytes,
            parked_bytes: 0,
            marks: VecDeque::new(),
            open: None,
            probe_at: now,
        }
    }

    /// Since when it is open, and why.
    pub(crate) fn is_open(&self) -> Option<(Instant, Cause)> {
        self.open
    }

    /// Events were published.
    pub(crate) fn published(&mut self, events: u64, now: Instant) {
        self.count(0, events, now);
    }

    /// An event was parked. Those that only wait behind others are not counted; their bytes are.
    pub(crate) fn parked(&mut self, bytes: u64, counts: bool, now: Instant) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.parked_bytes = self.parked_bytes.saturating_add(bytes);
        if counts {
            self.count(1, 1, now);
        }
    }

    /// Notes how much was parked by now. Between two moments it is not known.
    pub(crate) fn mark(&mut self, now: Instant) {
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((now, self.parked_bytes));
    }

    /// What the side table held at a moment.
    pub(crate) fn counted(&mut self, bytes: u64, at: Instant) {
        while self.marks.get(1).is_some_and(|(moment, _)| *moment <= at) {
            self.marks.pop_front();
        }
        let before = self.marks.front().map_or(0, |(_, bytes)| *bytes);
        self.set_live_bytes(bytes.saturating_add(self.parked_bytes.saturating_sub(before)));
    }

    /// What the side table holds, with nothing on its way there.
    pub(crate) fn set_live_bytes(&mut self, bytes: u64) {
        self.live_bytes = bytes;
        if matches!(self.open, Some((_, Cause::Bytes))) && bytes < self.limits.bytes {
            self.open = None;
        }
    }

    /// Whether an event may wait behind a parked one; opens if not. Many of them say nothing: only
    /// the first of a key is at fault.
    pub(crate) fn may_wait(&mut self, event: &Candidate, now: Instant) -> bool {
        self.reconsider(event);
        if self.open.is_none() {
            self.open = self.too_much(event).map(|cause| (now, cause));
        }
        self.probe_at = now + PROBE_EVERY;
        matches!(self.open, None | Some((_, Cause::Events)))
    }

    /// Whether an event may be parked; opens if not.
    pub(crate) fn may_park(&mut self, event: &Candidate, now: Instant) -> bool {
        if let Some((since, Cause::Events)) = self.open
            && event.class == Class::Rejected
            && now.saturating_duration_since(since) >= self.limits.window
        {
            self.close();
        }
        self.reconsider(event);
        if self.open.is_none() {
            let too_many = self.too_many(event, now).then_some(Cause::Events);
            self.open = too_many.or_else(|| self.too_much(event)).map(|cause| (now, cause));
        }
        self.probe_at = now + PROBE_EVERY;
        self.open.is_none()
    }

    /// Closes it if the reason does not hold for this event.
    fn reconsider(&mut self, event: &Candidate) {
        let holds = match self.open {
            Some((_, Cause::Keys)) => event.one_key_too_many,
            Some((_, Cause::Bytes)) => !event.belongs_to_parked,
            Some((_, Cause::Events)) | None => true,
        };
        if !holds {
            self.open = None;
        }
    }

    fn too_many(&mut self, event: &Candidate, now: Instant) -> bool {
        self.forget(now);
        let parked: u64 = self.parts.iter().map(|part| part.parked).sum::<u64>() + 1;
        let all: u64 = self.parts.iter().map(|part| part.all).sum::<u64>() + 1 + event.owed;
        parked > self.limits.events && parked as f64 > self.limits.share * all as f64
    }

    fn too_much(&self, event: &Candidate) -> Option<Cause> {
        let bytes = self.live_bytes.saturating_add(event.bytes);
        if event.one_key_too_many {
            Some(Cause::Keys)
        } else if bytes > self.limits.bytes && !event.belongs_to_parked {
            Some(Cause::Bytes)
        } else {
            None
        }
    }

    /// Whether the held event is to be tried now.
    pub(crate) fn is_probe_due(&self, now: Instant) -> bool {
        now >= self.probe_at
    }

    /// The probe was published.
    pub(crate) fn close(&mut self) {
        self.open = None;
        self.parts.clear();
    }

    fn count(&mut self, parked: u64, all: u64, now: Instant) {
        let length = self.limits.window / PARTS;
        match self.parts.back_mut() {
            Some(part) if now.saturating_duration_since(part.since) <= length => {
                part.parked += parked;
                part.all += all;
            }
            _ => {
                self.forget(now);
                self.parts.push_back(Part { since: now, parked, all });
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        let window = self.limits.window;
        self.parts.retain(|part| now.saturating_duration_since(part.since) <= window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker(now: Instant) -> Breaker {
        let limits = BreakerLimits { events: 10, share: 0.5, window: 20 * SECOND, bytes: 1000 };
        Breaker::new(limits, 0, now)
    }

    const EVENT: Candidate = Candidate {
        class: Class::Rejected,
        bytes: 1,
        owed: 0,
        one_key_too_many: false,
        belongs_to_parked: false,
    };

    fn of_bytes(bytes: u64) -> Candidate {
        Candidate { bytes, ..EVENT }
    }

    fn park(breaker: &mut Breaker, class: Class, now: Instant) -> bool {
        let may = breaker.may_park(&Candidate { class, ..EVENT }, now);
        if may {
            breaker.parked(1, true, now);
        }
        may
    }

    #[test]
    fn many_and_a_large_share_open_it() {
        let now = Instant::now();
        let mut few = breaker(now);
        assert!((0..10).all(|_| park(&mut few, Class::Retryable, now)));
        assert!(!park(&mut few, Class::Retryable, now));
        assert_eq!(few.is_open(), Some((now, Cause::Events)));

        let mut share = breaker(now);
        share.published(100, now);
        assert!((0..50).all(|_| park(&mut share, Class::Retryable, now)), "a small share");

        let mut slow = breaker(now);
        assert!((0..10).all(|_| park(&mut slow, Class::Retryable, now)));
        assert!(slow.may_park(&Candidate { owed: 11, ..EVENT }, now), "others are on their way");
        assert!(!slow.may_park(&Candidate { owed: 10, ..EVENT }, now));
    }

    #[test]
    fn a_slow_trickle_does_not_open_it() {
        let start = Instant::now();
        let mut breaker = breaker(start);
        assert!((0..100).all(|n| park(&mut breaker, Class::Retryable, start + 3 * n * SECOND)));
    }

    #[test]
    fn it_closes_by_its_probe_or_for_the_hopeless_after_a_window() {
        let now = Instant::now();
        let mut breaker = breaker(now);
        while park(&mut breaker, Class::Retryable, now) {}
        assert!(!breaker.is_probe_due(now));
        assert!(breaker.is_probe_due(now + PROBE_EVERY));
        assert!(!park(&mut breaker, Class::Retryable, now + 100 * SECOND), "only its probe");
        assert!(!park(&mut breaker, Class::Rejected, now + 19 * SECOND));
        assert!(park(&mut breaker, Class::Rejected, now + 20 * SECOND));
        while park(&mut breaker, Class::Retryable, now + 20 * SECOND) {}
        breaker.close();
        assert!(park(&mut breaker, Class::Retryable, now + 20 * SECOND));
    }

    #[test]
    fn a_count_is_old_news() {
        let now = Instant::now();
        let mut breaker = breaker(now);
        breaker.mark(now);
        breaker.parked(600, false, now);
        breaker.mark(now + 2 * SECOND);
        breaker.parked(400, false, now);
        assert!(!breaker.may_wait(&of_bytes(1), now));
        breaker.counted(0, now + SECOND);
        assert!(!breaker.may_wait(&of_bytes(1), now), "all of it may have been parked since");
        breaker.counted(600, now + 2 * SECOND);
        assert!(!breaker.may_wait(&of_bytes(1), now));
        breaker.counted(300, now + 2 * SECOND);
        assert!(breaker.may_wait(&of_bytes(300), now));
        assert!(!breaker.may_wait(&of_bytes(301), now));
    }

    #[test]
    fn bytes_open_it_also_of_those_that_wait() {
        let now = Instant::now();
        let mut breaker = breaker(now);
        breaker.parked(999, false, now);
        assert!(breaker.may_park(&of_bytes(1), now));
        assert!(breaker.may_wait(&of_bytes(1), now));
        assert!(!breaker.may_wait(&of_bytes(2), now));
        assert!(!breaker.may_park(&of_bytes(2), now));
        breaker.set_live_bytes(500);
        assert!(breaker.may_park(&of_bytes(2), now));
    }

    #[test]
    fn the_rest_of_a_transaction_is_not_held_for_bytes() {
        let now = Instant::now();
        let mut breaker = breaker(now);
        let rest = Candidate { belongs_to_parked: true, ..of_bytes(2000) };
        assert!(breaker.may_wait(&rest, now));
        assert!(breaker.may_park(&rest, now));
        assert!(!breaker.may_wait(&of_bytes(2000), now));
        assert!(breaker.may_wait(&rest, now), "also while it is open");
        assert_eq!(breaker.is_open(), None);
    }

    #[test]
    fn new_keys_open_it_when_there_are_too_many() {
        let now = Instant::now();
        let mut breaker = breaker(now);
        let new = Candidate { one_key_too_many: true, ..EVENT };
        assert!(!breaker.may_wait(&new, now));
        assert!(!breaker.may_park(&new, now));
        assert_eq!(breaker.is_open(), Some((now, Cause::Keys)));
        assert!(breaker.may_wait(&EVENT, now), "its key is held already");
    }
}
