//! How long the records of a topic with a refusal go through the careful lane. No I/O; the clock is
//! an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// After its last refusal. Each return to the careful lane doubles it.
const CAREFUL_FOR: Duration = Duration::from_secs(60);
const CAREFUL_FOR_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Topics kept. If there are more, the half whose period ends first returns to the fast lane, where
/// a refusal only restarts the stream.
const TOPICS_MAX: usize = 10_000;

/// The topics with a refusal.
#[derive(Debug, Default)]
pub(super) struct CarefulTopics {
    topics: HashMap<String, Care>,
}

impl CarefulTopics {
    /// Whether a topic's records go through the careful lane.
    pub(super) fn has(&self, topic: &str, now: Instant) -> bool {
        self.topics.get(topic).is_some_and(|care| care.is_active(now))
    }

    /// A record of a topic was refused; returns the care if it begins now.
    pub(super) fn note_refusal(&mut self, topic: &str, now: Instant) -> Option<Care> {
        let before = self.topics.get(topic).copied();
        if before.is_none() && self.topics.len() >= TOPICS_MAX {
            self.forget_half(now);
        }
        let care = Care::after(before, now);
        self.topics.insert(topic.to_owned(), care);
        before.is_none_or(|care| !care.is_active(now)).then_some(care)
    }

    /// Forgets the topics that went well for long enough.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.topics.retain(|_, care| !care.can_be_forgotten(now));
    }

    fn forget_half(&mut self, now: Instant) {
        self.forget_old(now);
        if self.topics.len() < TOPICS_MAX {
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
pub(super) struct Care {
    until: Instant,
    period: Duration,
}

impl Care {
    /// After a refusal, given what was known before.
    pub(super) fn after(before: Option<Care>, now: Instant) -> Self {
        let period = match before {
            // A refused batch is reported for each of its records.
            Some(care) if care.is_active(now) => care.period,
            Some(care) => care.period.saturating_mul(2).min(CAREFUL_FOR_MAX),
            None => CAREFUL_FOR,
        };
        Care { until: now + period, period }
    }

    pub(super) fn is_active(self, now: Instant) -> bool {
        self.until > now
    }

    /// Whether it can be forgotten: it went well without care for as long as with it.
    pub(super) fn can_be_forgotten(self, now: Instant) -> bool {
        self.until + self.period <= now
    }

    pub(super) fn seconds(self) -> u64 {
        self.period.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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
        for number in 0..TOPICS_MAX {
            assert!(topics.note_refusal(&number.to_string(), at(number)).is_some());
        }
        let newest = (TOPICS_MAX - 1).to_string();
        assert!(topics.note_refusal(&newest, at(TOPICS_MAX)).is_none(), "known already");
        assert!(topics.note_refusal("another", at(TOPICS_MAX)).is_some());
        assert!(topics.topics.len() <= TOPICS_MAX / 2 + 1);
        assert!(topics.has(&newest, at(TOPICS_MAX)) && !topics.has("0", at(TOPICS_MAX)));
    }

    #[test]
    fn what_goes_well_for_long_is_forgotten() {
        let now = Instant::now();
        let care = Care::after(None, now);
        let period = CAREFUL_FOR;
        assert!(care.is_active(now) && !care.is_active(now + period));
        assert!(!care.can_be_forgotten(now + period) && care.can_be_forgotten(now + 2 * period));
    }
}
