//! The circuit breaker: one mistake must not pour the whole outbox into the side table. No I/O; the
//! clock is an argument.
//!
//! It is for trouble that affects everything. It opens when, within a window, more than a number of
//! events *and* more than a share of all events were parked, or when the side table holds more than
//! a number of bytes. All events are those published, parked, and on their way. A missing topic is
//! a fact about one topic, so its events never count; a topic that denies writing counts only while
//! nothing at all was acknowledged within the window. While the breaker is open, nothing that
//! counts is parked, and the position is held. An event that can be retried is the probe: once it
//! is published, the breaker closes. An event that no retry can publish is parked when a window has
//! passed: waiting would not help it. So is one whose topic denies writing: while it is held
//! nothing is read, so no event of another topic could be acknowledged, and one topic would hold
//! all of them.

mod window;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::window::{Window, WindowCounts};
use crate::delivery::{Class, Reason};

/// How often the held event is tried.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How many samples of the bytes parked so far are kept.
const PARKED_BY_MAX: usize = 100;

/// When to open.
#[derive(Debug, Clone)]
pub struct BreakerLimits {
    pub events: u64,
    pub share: f64,
    pub window: Duration,
    pub bytes: u64,
}

/// What a parked event says about everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Nothing: it waits for another, or its topic or schema is missing, or anybody could have
    /// written it.
    Nothing,
    /// Its topic denies writing. If nothing can be written anywhere, the credentials are wrong.
    WhileNothingIsPublished,
    /// Something is wrong with what is written.
    Full,
}

impl Weight {
    /// The one place that decides.
    pub fn of(reason: Reason) -> Self {
        match reason {
            Reason::Blocked
            | Reason::Malformed
            | Reason::TopicMissing
            | Reason::PartitionMissing
            | Reason::SchemaMissing => Weight::Nothing,
            Reason::TopicDenied => Weight::WhileNothingIsPublished,
            _ => Weight::Full,
        }
    }
}

/// Why it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Too many events.
    Events,
    /// Too many events whose topics deny writing, and nothing was published.
    Denied,
    /// Too many bytes.
    Bytes,
}

/// An event that is to be parked.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub class: Class,
    pub weight: Weight,
    pub bytes: u64,
    /// Events on their way to the destination: an event can be parked at once, while the outcome of
    /// its neighbours takes longer.
    pub owed: u64,
    /// Some of its transaction is parked already. None of that can leave before all of the
    /// transaction is done, so holding back the rest because of its bytes would hold it forever.
    pub belongs_to_parked: bool,
}

#[derive(Debug)]
pub struct Breaker {
    limits: BreakerLimits,
    window: Window,
    /// Bytes of events in the side table that are not done.
    live_bytes: u64,
    /// Bytes of the event that did not fit: without them the breaker would keep closing and
    /// opening.
    held_bytes: u64,
    /// Bytes parked in total, now and at earlier moments: a count of the side table does not
    /// include what was parked after the count began.
    parked_bytes: u64,
    parked_by: VecDeque<(Instant, u64)>,
    open: Option<(Instant, Cause)>,
    probe_at: Instant,
}

impl Breaker {
    pub fn new(limits: BreakerLimits, live_bytes: u64, now: Instant) -> Self {
        Breaker {
            window: Window::new(limits.window),
            limits,
            live_bytes,
            held_bytes: 0,
            parked_bytes: 0,
            parked_by: VecDeque::new(),
            open: None,
            probe_at: now,
        }
    }

    /// Since when it is open, and why.
    pub fn opened(&self) -> Option<(Instant, Cause)> {
        self.open
    }

    /// Events were published.
    pub fn published(&mut self, events: u64, now: Instant) {
        self.window.add(WindowCounts { published: events, ..WindowCounts::default() }, now);
    }

    /// An event was parked. Its bytes always count.
    pub fn parked(&mut self, bytes: u64, weight: Weight, now: Instant) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.parked_bytes = self.parked_bytes.saturating_add(bytes);
        if weight != Weight::Nothing {
            self.window.add(WindowCounts::one(weight), now);
        }
    }

    /// Records how much was parked by now. Between two such moments it is unknown.
    pub fn remember_parked(&mut self, now: Instant) {
        if self.parked_by.len() >= PARKED_BY_MAX {
            self.parked_by.pop_front();
        }
        self.parked_by.push_back((now, self.parked_bytes));
    }

    /// What the side table held at a moment.
    pub fn counted(&mut self, bytes: u64, at: Instant) {
        while self.parked_by.get(1).is_some_and(|(moment, _)| *moment <= at) {
            self.parked_by.pop_front();
        }
        let before = self.parked_by.front().map_or(0, |(_, bytes)| *bytes);
        self.set_live_bytes(bytes.saturating_add(self.parked_bytes.saturating_sub(before)));
    }

    /// What the side table holds, with nothing on its way there.
    pub fn set_live_bytes(&mut self, bytes: u64) {
        self.live_bytes = bytes;
        let has_room = bytes == 0 || bytes.saturating_add(self.held_bytes) <= self.limits.bytes;
        if matches!(self.open, Some((_, Cause::Bytes))) && has_room {
            self.open = None;
        }
    }

    /// Whether an event may be parked; opens if not.
    pub fn may_park(&mut self, event: &Candidate, now: Instant) -> bool {
        if let Some((since, cause)) = self.open
            && holding_is_useless(cause, event)
            && now.saturating_duration_since(since) >= self.limits.window
        {
            self.close();
        }
        let recent = self.window.recent(now);
        let counts = match event.weight {
            Weight::Nothing => false,
            Weight::WhileNothingIsPublished => recent.published == 0,
            Weight::Full => true,
        };
        self.reconsider(event, recent);
        if self.open.is_none() {
            let too_many = if counts { self.cause_by_events(event, recent) } else { None };
            self.open = too_many.or_else(|| self.cause_by_bytes(event)).map(|cause| (now, cause));
            self.held_bytes = event.bytes;
        }
        self.probe_at = now + PROBE_EVERY;
        match self.open {
            None => true,
            Some((_, Cause::Events | Cause::Denied)) => !counts,
            Some((_, Cause::Bytes)) => false,
        }
    }

    /// Closes it if its cause no longer holds, or not for this event.
    fn reconsider(&mut self, event: &Candidate, recent: WindowCounts) {
        let holds = match self.open {
            Some((_, Cause::Bytes)) => !event.belongs_to_parked,
            Some((_, Cause::Denied)) => recent.published == 0,
            Some((_, Cause::Events)) | None => true,
        };
        if !holds {
            self.open = None;
        }
    }

    fn cause_by_events(&self, event: &Candidate, recent: WindowCounts) -> Option<Cause> {
        let mut with = recent;
        with.add(WindowCounts::one(event.weight));
        let all = with.published + with.parked + with.denied + event.owed;
        let is_too_many = |count: u64| {
            count > self.limits.events && count as f64 > self.limits.share * all as f64
        };
        if is_too_many(with.parked) {
            Some(Cause::Events)
        } else if with.published == 0 && is_too_many(with.parked + with.denied) {
            Some(Cause::Denied)
        } else {
            None
        }
    }

    /// An event that is larger than the limit is accepted into an empty side table: no waiting
    /// would make room for it.
    fn cause_by_bytes(&self, event: &Candidate) -> Option<Cause> {
        let bytes = self.live_bytes.saturating_add(event.bytes);
        let is_alone = self.live_bytes == 0 || event.bytes == 0;
        let is_too_much = bytes > self.limits.bytes && !is_alone && !event.belongs_to_parked;
        is_too_much.then_some(Cause::Bytes)
    }

    /// Whether the held event is to be tried now.
    pub fn is_probe_due(&self, now: Instant) -> bool {
        now >= self.probe_at
    }

    /// The probe was published.
    pub fn close(&mut self) {
        self.open = None;
        self.window.clear();
    }
}

/// Whether holding the event helps neither it nor others.
fn holding_is_useless(cause: Cause, event: &Candidate) -> bool {
    match cause {
        Cause::Events => event.class == Class::Rejected && event.weight == Weight::Full,
        Cause::Denied => event.weight == Weight::WhileNothingIsPublished,
        Cause::Bytes => false,
    }
}

#[cfg(test)]
mod tests;
