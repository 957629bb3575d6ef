//! Keys with parked events: later events of theirs wait behind them. No I/O.
//!
//! A key is held from the moment an event of it is handed over to be parked. It is freed when the
//! side table has no live row of it *and* nothing of it is on the way there. Live rows are made by
//! this relay only, so a key that is found free stays free until it parks again.

use std::collections::HashMap;
use std::time::Instant;

use super::order::storable;
use super::{OrderKey, Within};

/// Keys held at the most; with more the relay stops to park.
pub(crate) const HELD_KEYS_MAX: usize = 100_000;

#[derive(Debug, Default)]
struct Held {
    /// Events on the way into the side table.
    on_the_way: usize,
    /// The side table is nearly done with the key: wait until then instead of parking more behind.
    handover_until: Option<Instant>,
}

/// What an event of a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It goes.
    Free,
    /// It will be able to go in a moment.
    Soon,
    /// It is parked behind the others.
    Behind,
}

/// What is held of a topic. Looked at for every event: nothing may be copied for that.
#[derive(Debug, Default)]
struct Topic {
    keys: HashMap<String, Held>,
    partitions: HashMap<i32, Held>,
    whole: Option<Held>,
}

impl Topic {
    fn get(&self, ordering_key: Option<&str>, partition: Option<i32>) -> Option<&Held> {
        let within = match (ordering_key, partition) {
            (Some(key), _) => self.keys.get(key),
            (None, Some(partition)) => self.partitions.get(&partition),
            (None, None) => None,
        };
        self.whole.as_ref().or(within)
    }

    fn find(&self, within: &Within) -> Option<&Held> {
        match within {
            Within::Key(key) => self.keys.get(key),
            Within::Partition(partition) => self.partitions.get(partition),
            Within::Topic => self.whole.as_ref(),
        }
    }

    fn find_mut(&mut self, within: &Within) -> Option<&mut Held> {
        match within {
            Within::Key(key) => self.keys.get_mut(key),
            Within::Partition(partition) => self.partitions.get_mut(partition),
            Within::Topic => self.whole.as_mut(),
        }
    }

    fn entry(&mut self, within: &Within) -> &mut Held {
        match within {
            Within::Key(key) => self.keys.entry(key.clone()).or_default(),
            Within::Partition(partition) => self.partitions.entry(*partition).or_default(),
            Within::Topic => self.whole.get_or_insert_default(),
        }
    }

    fn remove(&mut self, within: &Within) {
        match within {
            Within::Key(key) => drop(self.keys.remove(key)),
            Within::Partition(partition) => drop(self.partitions.remove(partition)),
            Within::Topic => self.whole = None,
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.partitions.is_empty() && self.whole.is_none()
    }

    fn all(&self) -> impl Iterator<Item = Within> {
        let keys = self.keys.keys().cloned().map(Within::Key);
        let partitions = self.partitions.keys().copied().map(Within::Partition);
        keys.chain(partitions).chain(self.whole.as_ref().map(|_| Within::Topic))
    }
}

/// The held keys, by topic.
#[derive(Debug, Default)]
pub(crate) struct HeldKeys {
    topics: HashMap<String, Topic>,
    /// Every event keeps its order with all others of its topic.
    whole_topic: bool,
    count: usize,
    /// Where the last look at the keys ended.
    looked_at: usize,
    /// There were more keys than are kept, so every key may be one of them.
    overflow: bool,
}

impl HeldKeys {
    /// Those that have live rows in the side table; one more than are held says that there are more.
    pub(crate) fn new(keys: Vec<OrderKey>, whole_topic: bool) -> Self {
        let overflow = keys.len() > HELD_KEYS_MAX;
        let mut held = HeldKeys { whole_topic, overflow, ..HeldKeys::default() };
        for key in keys {
            held.entry(&key);
        }
        held
    }

    fn entry(&mut self, key: &OrderKey) -> &mut Held {
        let topic = self.topics.entry(key.topic.clone()).or_default();
        if topic.find(&key.within).is_none() {
            self.count += 1;
        }
        topic.entry(&key.within)
    }

    fn get_mut(&mut self, key: &OrderKey) -> Option<&mut Held> {
        self.topics.get_mut(&key.topic)?.find_mut(&key.within)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether it is worth to read the keys anew, because they could all be kept now.
    pub(crate) fn is_outdated(&self) -> bool {
        self.overflow && self.count < HELD_KEYS_MAX / 2
    }

    /// Whether this key would be one too many.
    pub(crate) fn has_no_room_for(&self, key: &OrderKey) -> bool {
        self.count >= HELD_KEYS_MAX && !self.is_held(key)
    }

    /// Whether events of this key wait.
    pub(crate) fn is_held(&self, key: &OrderKey) -> bool {
        self.topics.get(&key.topic).is_some_and(|topic| topic.find(&key.within).is_some())
    }

    /// What the next event of a topic, with this key and partition, does.
    pub(crate) fn turn(
        &self,
        topic: &str,
        ordering_key: Option<&str>,
        partition: Option<i32>,
        now: Instant,
    ) -> Turn {
        if self.count == 0 {
            return Turn::Free;
        }
        if ordering_key.is_none() && partition.is_none() && !self.whole_topic {
            return Turn::Free;
        }
        let held = self.topics.get(topic).and_then(|topic| {
            // An earlier event of a key that Postgres does not store is there under another.
            let stand_in = || topic.get(Some(&storable(ordering_key?)?), partition);
            topic.get(ordering_key, partition).or_else(stand_in)
        });
        match held {
            None if self.overflow => Turn::Behind,
            None => Turn::Free,
            Some(held) if held.handover_until.is_some_and(|until| until > now) => Turn::Soon,
            Some(_) => Turn::Behind,
        }
    }

    /// An event is on its way into the side table.
    pub(crate) fn hold(&mut self, key: &OrderKey) {
        self.entry(key).on_the_way += 1;
    }

    /// An event has arrived there.
    pub(crate) fn parked(&mut self, key: &OrderKey) {
        if let Some(held) = self.get_mut(key) {
            held.on_the_way = held.on_the_way.saturating_sub(1);
        }
    }

    /// The side table will be done with a key in a moment.
    pub(crate) fn hand_over(&mut self, key: &OrderKey, until: Instant) {
        if let Some(held) = self.get_mut(key) {
            held.handover_until = Some(until);
        }
    }

    /// The side table has nothing of a key any more.
    pub(crate) fn free(&mut self, key: &OrderKey) -> bool {
        let Some(topic) = self.topics.get_mut(&key.topic) else { return false };
        let is_free = topic.find(&key.within).is_some_and(|held| held.on_the_way == 0);
        if is_free {
            topic.remove(&key.within);
            self.count -= 1;
            if topic.is_empty() {
                self.topics.remove(&key.topic);
            }
        }
        is_free
    }

    /// Some of the keys, others each time.
    pub(crate) fn next(&mut self, max: usize) -> Vec<OrderKey> {
        if self.looked_at >= self.count {
            self.looked_at = 0;
        }
        let all = self.topics.iter().flat_map(|(topic, held)| {
            held.all().map(|within| OrderKey { topic: topic.clone(), within })
        });
        let some: Vec<OrderKey> = all.skip(self.looked_at).take(max).collect();
        self.looked_at += some.len();
        some
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> OrderKey {
        OrderKey { topic: "t".to_owned(), within: Within::Key(name.to_owned()) }
    }

    #[test]
    fn a_key_is_free_when_nothing_is_on_the_way() {
        let now = Instant::now();
        let mut held = HeldKeys::new(vec![key("a")], false);
        assert_eq!(held.turn("t", Some("a"), None, now), Turn::Behind);
        assert_eq!(held.turn("u", Some("a"), None, now), Turn::Free);
        assert_eq!(held.turn("t", None, None, now), Turn::Free);
        held.hold(&key("a"));
        assert!(!held.free(&key("a")), "an event is on its way");
        held.parked(&key("a"));
        assert!(held.free(&key("a")));
        assert_eq!(held.turn("t", Some("a"), None, now), Turn::Free);
        assert_eq!(held.len(), 0);
    }

    #[test]
    fn a_partition_is_held_for_events_without_a_key_and_a_topic_for_all() {
        let now = Instant::now();
        let of = |within| OrderKey { topic: "t".to_owned(), within };
        let mut held = HeldKeys::new(vec![of(Within::Partition(0))], false);
        assert_eq!(held.turn("t", None, Some(0), now), Turn::Behind);
        assert_eq!(held.turn("t", None, Some(1), now), Turn::Free);
        assert_eq!(held.turn("t", Some("k"), Some(0), now), Turn::Free, "it has its own order");
        assert_eq!(held.turn("t", None, None, now), Turn::Free);
        assert_eq!(held.next(9), [of(Within::Partition(0))]);
        assert!(held.free(&of(Within::Partition(0))));
        assert_eq!((held.len(), held.turn("t", None, Some(0), now)), (0, Turn::Free));

        let held = HeldKeys::new(vec![of(Within::Topic)], true);
        for (key, partition) in [(None, None), (Some("k"), None), (None, Some(7))] {
            assert_eq!(held.turn("t", key, partition, now), Turn::Behind);
            assert_eq!(held.turn("u", key, partition, now), Turn::Free);
        }
    }

    #[test]
    fn a_key_that_is_not_stored_is_held_by_the_one_that_stands_for_it() {
        let now = Instant::now();
        let mut held = HeldKeys::new(vec![key(r"\u{4e2d}")], false);
        assert_eq!(held.turn("t", Some("中"), None, now), Turn::Behind);
        assert_eq!(held.turn("t", Some("文"), None, now), Turn::Free);
        assert!(held.free(&key(r"\u{4e2d}")));
        held.hold(&key("other"));
        assert_eq!(held.turn("t", Some("中"), None, now), Turn::Free);
    }

    #[test]
    fn a_handover_ends() {
        let now = Instant::now();
        let mut held = HeldKeys::new(vec![key("a")], false);
        let second = Duration::from_secs(1);
        held.hand_over(&key("a"), now + second);
        assert_eq!(held.turn("t", Some("a"), None, now), Turn::Soon);
        assert_eq!(held.turn("t", Some("a"), None, now + second), Turn::Behind);
        held.hand_over(&key("b"), now + second);
        assert_eq!(held.turn("t", Some("b"), None, now), Turn::Free, "never held");
    }

    #[test]
    fn with_too_many_keys_every_key_may_be_one_of_them() {
        let now = Instant::now();
        let mut held =
            HeldKeys::new((0..=HELD_KEYS_MAX).map(|n| key(&n.to_string())).collect(), false);
        assert!(held.has_no_room_for(&key("another")));
        assert!(!held.has_no_room_for(&key("1")));
        assert_eq!(held.turn("t", Some("another"), None, now), Turn::Behind);
        assert_eq!(held.turn("t", None, None, now), Turn::Free);
        for n in 0..=HELD_KEYS_MAX / 2 {
            held.free(&key(&n.to_string()));
        }
        assert!(!held.is_outdated());
        held.free(&key(&(HELD_KEYS_MAX - 1).to_string()));
        assert!(held.is_outdated());
    }

    #[test]
    fn as_many_keys_as_are_held_are_all_known() {
        let now = Instant::now();
        let held = HeldKeys::new((0..HELD_KEYS_MAX).map(|n| key(&n.to_string())).collect(), false);
        assert_eq!(held.turn("t", Some("1"), None, now), Turn::Behind);
        assert_eq!(held.turn("t", Some("another"), None, now), Turn::Free);
    }

    #[test]
    fn every_key_is_looked_at_in_turn() {
        let mut held = HeldKeys::new((0..5).map(|n| key(&n.to_string())).collect(), false);
        let mut seen: Vec<String> =
            (0..3).flat_map(|_| held.next(2)).map(|key| format!("{:?}", key.within)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4].map(|n| format!("Key(\"{n}\")")));
        assert_eq!(held.next(2).len(), 2);
    }
}
