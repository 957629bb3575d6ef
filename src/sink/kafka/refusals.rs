//! What refused records have shown about topics: which of them need the careful lane, and which
//! need not be tried.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use postrider_core::delivery::Refusal;

/// How long a topic that accepted nothing is not tried.
const CLOSED_FOR: Duration = Duration::from_secs(5);
/// Closed topics kept. Records of others are tried, and refused alone.
const CLOSED_MAX: usize = 10_000;

/// How long a topic needs care after its last refusal. Each return to the careful lane doubles it.
const CAREFUL_FOR: Duration = Duration::from_secs(60);
const CAREFUL_FOR_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Careful topics kept. If there are more, the half whose period ends first returns to the fast
/// lane, where a refusal only restarts the stream.
const CAREFUL_MAX: usize = 10_000;

/// How long probation lasts after a refusal.
const PROBATION_LASTS: Duration = Duration::from_secs(60);
/// Topics known to accept records; further ones stay in the careful lane until probation ends.
const PASSED_MAX: usize = 10_000;

/// What becomes of a topic's records.
pub(super) enum TopicState {
    /// They are sent.
    Open,
    /// They go through the careful lane.
    Careful,
    /// They are not tried now.
    Closed(Refusal),
}

#[derive(Default)]
pub(super) struct Refusals {
    closed: ClosedTopics,
    careful: CarefulTopics,
    /// Topics that have not shown yet that they accept records.
    probation: Probation,
}

impl Refusals {
    pub(super) fn begin_session(&mut self, now: Instant) {
        self.careful.forget_old(now);
        self.probation.begin_session(now);
        self.closed.forget_old(now);
    }

    pub(super) fn look_up(&self, topic: &str, now: Instant) -> TopicState {
        if let Some(refusal) = self.closed.refusal(topic, now) {
            TopicState::Closed(refusal)
        } else if self.careful.has(topic, now) || self.probation.applies_to(topic, now) {
            TopicState::Careful
        } else {
            TopicState::Open
        }
    }

    /// A record was refused, in either lane.
    pub(super) fn add(&mut self, topic: &str, reason: &str) {
        let now = Instant::now();
        self.probation.note_refusal(now);
        if let Some(care) = self.careful.note_refusal(topic, now) {
            tracing::warn!(
                topic,
                reason,
                "the broker rejected a record; this topic's records go through the careful lane \
                 for {} s",
                care.seconds()
            );
        }
    }

    /// A record was refused for its topic, which is not tried for a moment.
    pub(super) fn close_topic(&mut self, topic: &str, refusal: &Refusal) {
        self.closed.close(topic, refusal, Instant::now());
    }

    /// A record was acknowledged in the careful lane.
    pub(super) fn note_acknowledgement(&mut self, topic: &str) {
        self.probation.note_acknowledgement(topic);
    }
}

/// Topics that accepted nothing a moment ago: until when they are not tried, and why.
#[derive(Debug, Default)]
struct ClosedTopics {
    topics: HashMap<String, (Instant, Refusal)>,
}

impl ClosedTopics {
    /// A record was refused for its topic.
    fn close(&mut self, topic: &str, refusal: &Refusal, now: Instant) {
        if self.topics.len() >= CLOSED_MAX {
            self.forget_old(now);
        }
        if self.topics.len() < CLOSED_MAX || self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), (now + CLOSED_FOR, refusal.clone()));
        }
    }

    /// Why a topic is not tried now, if so.
    fn refusal(&self, topic: &str, now: Instant) -> Option<Refusal> {
        let (_, refusal) = self.topics.get(topic).filter(|(until, _)| *until > now)?;
        Some(refusal.clone())
    }

    /// Forgets those that may be tried again.
    fn forget_old(&mut self, now: Instant) {
        self.topics.retain(|_, (until, _)| *until > now);
    }
}

/// Topics with a refusal, whose records go through the careful lane for a while.
#[derive(Debug, Default)]
struct CarefulTopics {
    topics: HashMap<String, Care>,
}

impl CarefulTopics {
    fn has(&self, topic: &str, now: Instant) -> bool {
        self.topics.get(topic).is_some_and(|care| care.is_active(now))
    }

    /// A record of a topic was refused; returns the care if it begins now.
    fn note_refusal(&mut self, topic: &str, now: Instant) -> Option<Care> {
        let before = self.topics.get(topic).copied();
        if before.is_none() && self.topics.len() >= CAREFUL_MAX {
            self.forget_half(now);
        }
        let care = Care::after(before, now);
        self.topics.insert(topic.to_owned(), care);
        before.is_none_or(|care| !care.is_active(now)).then_some(care)
    }

    /// Forgets the topics that went well for long enough.
    fn forget_old(&mut self, now: Instant) {
        self.topics.retain(|_, care| !care.can_be_forgotten(now));
    }

    fn forget_half(&mut self, now: Instant) {
        self.forget_old(now);
        if self.topics.len() < CAREFUL_MAX {
            return;
        }
        let mut ends: Vec<Instant> = self.topics.values().map(|care| care.until).collect();
        let middle = ends.len() / 2;
        let (_, median, _) = ends.select_nth_unstable(middle);
        let median = *median;
        self.topics.retain(|_, care| care.until > median);
    }
}

/// Until when a topic is treated with care.
#[derive(Debug, Clone, Copy)]
struct Care {
    until: Instant,
    period: Duration,
}

impl Care {
    /// After a refusal, given what was known before.
    fn after(before: Option<Care>, now: Instant) -> Self {
        let period = match before {
            // A refused batch is reported for each of its records.
            Some(care) if care.is_active(now) => care.period,
            Some(care) => care.period.saturating_mul(2).min(CAREFUL_FOR_MAX),
            None => CAREFUL_FOR,
        };
        Care { until: now + period, period }
    }

    fn is_active(self, now: Instant) -> bool {
        self.until > now
    }

    /// Whether it can be forgotten: it went well without care for as long as with it.
    fn can_be_forgotten(self, now: Instant) -> bool {
        self.until + self.period <= now
    }

    fn seconds(self) -> u64 {
        self.period.as_secs()
    }
}

/// After a refusal in the fast lane: topics have to show that they accept records.
///
/// Such a refusal restarts the stream, with that topic in the careful lane. If many topics refused
/// their first record in the fast lane, each would cause a restart; so for a while the first
/// records of every topic go through the careful lane, until one of them is acknowledged. Whether
/// that applies is decided when a session begins: within a session, no topic may change from the
/// fast to the careful lane.
#[derive(Debug, Default)]
struct Probation {
    refused_at: Option<Instant>,
    /// The end of probation in this session; none: it does not apply.
    until: Option<Instant>,
    passed: HashSet<String>,
}

impl Probation {
    /// A session begins.
    fn begin_session(&mut self, now: Instant) {
        self.passed.clear();
        self.until = self.refused_at.map(|at| at + PROBATION_LASTS).filter(|until| *until > now);
    }

    /// A record was refused, in either lane.
    fn note_refusal(&mut self, now: Instant) {
        self.refused_at = Some(now);
        if self.is_active(now) {
            self.until = Some(now + PROBATION_LASTS);
        }
    }

    /// The careful lane has an acknowledgement for a topic.
    fn note_acknowledgement(&mut self, topic: &str) {
        if self.until.is_some() && self.passed.len() < PASSED_MAX && !self.passed.contains(topic) {
            self.passed.insert(topic.to_owned());
        }
    }

    /// Whether a topic has yet to show that it accepts records.
    fn applies_to(&self, topic: &str, now: Instant) -> bool {
        self.is_active(now) && !self.passed.contains(topic)
    }

    fn is_active(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::delivery::Reason;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_topic_is_closed_for_a_while_and_of_too_many_the_first_are_known() {
        let now = Instant::now();
        let refusal = Refusal { reason: Reason::TopicDenied, detail: String::new() };
        let mut closed = ClosedTopics::default();
        (0..=CLOSED_MAX).for_each(|number| closed.close(&number.to_string(), &refusal, now));
        let last = CLOSED_MAX.to_string();
        assert_eq!(closed.topics.len(), CLOSED_MAX);
        assert!(closed.refusal("0", now).is_some() && closed.refusal(&last, now).is_none());
        let later = now + CLOSED_FOR;
        assert!(closed.refusal("0", later).is_none());
        closed.close(&last, &refusal, later);
        assert!(closed.refusal(&last, later).is_some() && closed.topics.len() == 1);
    }

    /// How often a record is refused outside the careful lane, and so together with others, if one
    /// is refused at this interval.
    fn returns(every: Duration) -> usize {
        let begin = Instant::now();
        let mut care: Option<Care> = None;
        let mut returns = 0;
        let mut now = begin;
        while now < begin + DAY {
            returns += usize::from(!care.is_some_and(|care| care.is_active(now)));
            care = Some(Care::after(care, now));
            now += every;
        }
        returns
    }

    #[test]
    fn refusals_all_the_time_begin_the_stream_anew_once() {
        for seconds in [1, 10, 59] {
            assert_eq!(returns(Duration::from_secs(seconds)), 1, "every {seconds} s");
        }
    }

    #[test]
    fn refusals_now_and_then_do_so_less_and_less() {
        for (seconds, expect) in [(61, 2), (130, 3), (600, 5), (3600, 7)] {
            assert_eq!(returns(Duration::from_secs(seconds)), expect, "every {seconds} s");
        }
    }

    #[test]
    fn topics_are_kept_up_to_a_bound() {
        let now = Instant::now();
        let mut topics = CarefulTopics::default();
        let at = |number: usize| now + Duration::from_micros(number as u64);
        for number in 0..CAREFUL_MAX {
            assert!(topics.note_refusal(&number.to_string(), at(number)).is_some());
        }
        let newest = (CAREFUL_MAX - 1).to_string();
        assert!(topics.note_refusal(&newest, at(CAREFUL_MAX)).is_none(), "known already");
        assert!(topics.note_refusal("another", at(CAREFUL_MAX)).is_some());
        assert!(topics.topics.len() <= CAREFUL_MAX / 2 + 1);
        assert!(topics.has(&newest, at(CAREFUL_MAX)) && !topics.has("0", at(CAREFUL_MAX)));
    }

    #[test]
    fn what_goes_well_for_long_is_forgotten() {
        let now = Instant::now();
        let care = Care::after(None, now);
        let period = CAREFUL_FOR;
        assert!(care.is_active(now) && !care.is_active(now + period));
        assert!(!care.can_be_forgotten(now + period) && care.can_be_forgotten(now + 2 * period));
    }

    #[test]
    fn after_a_refusal_topics_have_to_pass_for_a_while() {
        let now = Instant::now();
        let mut probation = Probation::default();
        probation.begin_session(now);
        probation.note_refusal(now);
        assert!(!probation.applies_to("a", now), "not in the same session");
        probation.begin_session(now);
        probation.note_acknowledgement("a");
        assert!(!probation.applies_to("a", now) && probation.applies_to("b", now));
        let later = now + PROBATION_LASTS / 2;
        probation.note_refusal(later);
        assert!(
            probation.applies_to("b", now + PROBATION_LASTS)
                && !probation.applies_to("b", later + PROBATION_LASTS)
        );
        probation.note_refusal(later + PROBATION_LASTS);
        assert!(
            !probation.applies_to("b", later + PROBATION_LASTS),
            "it has been in the fast lane since"
        );
        probation.begin_session(later + PROBATION_LASTS);
        assert!(probation.applies_to("a", later + PROBATION_LASTS), "each session starts over");
        probation.begin_session(later + 2 * PROBATION_LASTS);
        assert!(!probation.applies_to("a", later + 2 * PROBATION_LASTS));
    }

    #[test]
    fn of_more_topics_than_are_kept_the_others_are_sent_to_with_care() {
        let now = Instant::now();
        let mut probation = Probation::default();
        probation.note_refusal(now);
        probation.begin_session(now);
        (0..=PASSED_MAX).for_each(|number| probation.note_acknowledgement(&number.to_string()));
        assert!(
            !probation.applies_to("0", now) && probation.applies_to(&PASSED_MAX.to_string(), now)
        );
    }
}
