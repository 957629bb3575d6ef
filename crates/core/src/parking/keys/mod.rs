//! Keys with parked events: later events of the same key wait for them. No I/O.
//!
//! A key is held from the moment an event of it is handed over to be parked. It is freed when the
//! side table has no live row of it *and* none of its events is on the way there. Only this relay
//! adds live rows, so a key that is found free stays free until this relay parks an event of it
//! again.
//!
//! A limited number of keys are known one by one. If a topic has more, every other key of it may be
//! held: its events are parked too, and leave through the side table in their order. Other topics
//! are not affected.

use std::collections::HashMap;
use std::time::Instant;

use crate::order::{OrderKey, Within, storable};

/// Limits on tracked keys, in number and in bytes.
const HELD_KEYS_MAX: usize = 100_000;
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The same for one topic, so that a single one can't use up the limits of all.
const TOPIC_KEYS_MAX: usize = HELD_KEYS_MAX / 4;
/// How many topics that have more keys than are known can be named. With more, any topic may be one
/// of them.
const CROWDED_TOPICS_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct Held {
    /// Events on the way into the side table.
    being_parked: usize,
    /// The side table is nearly done with the key: wait until then instead of parking more events.
    handover_until: Option<Instant>,
}

/// What an event of a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyGate {
    /// It is published.
    Open,
    /// It can be published in a moment.
    OpeningSoon,
    /// It is parked, after the others of its key.
    Blocked,
}

/// What is held of a topic. It is read for every event, so nothing must be copied for that.
#[derive(Debug, Default)]
struct Topic {
    keys: HashMap<String, Held>,
    partitions: HashMap<i32, Held>,
    whole: Option<Held>,
    /// It has more keys than are known.
    is_crowded: bool,
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

    /// How many keys of it are known.
    fn len(&self) -> usize {
        self.keys.len() + self.partitions.len() + usize::from(self.whole.is_some())
    }

    fn all(&self) -> impl Iterator<Item = Within> {
        let keys = self.keys.keys().cloned().map(Within::Key);
        let partitions = self.partitions.keys().copied().map(Within::Partition);
        keys.chain(partitions).chain(self.whole.as_ref().map(|_| Within::Topic))
    }
}

/// The held keys, by topic.
#[derive(Debug, Default)]
pub struct HeldKeys {
    topics: HashMap<String, Topic>,
    /// Every event keeps its order with all others of its topic.
    whole_topic: bool,
    /// Known keys, and their bytes.
    count: usize,
    bytes: usize,
    /// Where the next call of `next_batch` begins.
    next_key: usize,
    crowded_topics: usize,
    /// There are more crowded topics than are known, so every topic may be one of them.
    is_crowded: bool,
}

impl HeldKeys {
    pub fn new(whole_topic: bool) -> Self {
        HeldKeys { whole_topic, ..HeldKeys::default() }
    }

    /// The side table has live rows of this key.
    pub fn found(&mut self, key: &OrderKey) {
        self.entry(key);
    }

    /// None: there are too many keys, so all keys of its topic are held.
    fn entry(&mut self, key: &OrderKey) -> Option<&mut Held> {
        let known = self.topics.get(&key.topic);
        let is_new = known.is_none_or(|topic| topic.find(&key.within).is_none());
        let bytes = bytes(key);
        if is_new {
            let has_room = self.count < HELD_KEYS_MAX
                && self.bytes + bytes <= HELD_BYTES_MAX
                && known.is_none_or(|topic| topic.len() < TOPIC_KEYS_MAX);
            if !has_room {
                self.mark_crowded(&key.topic);
                return None;
            }
            self.count += 1;
            self.bytes += bytes;
        }
        Some(self.topics.entry(key.topic.clone()).or_default().entry(&key.within))
    }

    fn mark_crowded(&mut self, topic: &str) {
        if self.topics.get(topic).is_some_and(|topic| topic.is_crowded) {
            return;
        }
        if self.crowded_topics >= CROWDED_TOPICS_MAX {
            self.is_crowded = true;
            return;
        }
        self.crowded_topics += 1;
        self.topics.entry(topic.to_owned()).or_default().is_crowded = true;
    }

    fn get_mut(&mut self, key: &OrderKey) -> Option<&mut Held> {
        self.topics.get_mut(&key.topic)?.find_mut(&key.within)
    }

    /// Whether no event has to wait.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && !self.is_crowded
    }

    /// Whether the keys should be read again, because more of them could be known now.
    pub fn is_outdated(&self) -> bool {
        let has_room = self.count < HELD_KEYS_MAX / 2 && self.bytes < HELD_BYTES_MAX / 2;
        let has_left = |topic: &Topic| topic.is_crowded && topic.len() < TOPIC_KEYS_MAX / 2;
        let is_crowded = self.is_crowded || self.crowded_topics > 0;
        is_crowded && has_room && (self.is_crowded || self.topics.values().any(has_left))
    }

    /// Whether events of this key wait.
    pub fn is_held(&self, key: &OrderKey) -> bool {
        self.topics.get(&key.topic).is_some_and(|topic| topic.find(&key.within).is_some())
    }

    /// What the next event of a topic, with this key and partition, does.
    pub fn gate(
        &self,
        topic: &str,
        ordering_key: Option<&str>,
        partition: Option<i32>,
        now: Instant,
    ) -> KeyGate {
        if ordering_key.is_none() && partition.is_none() && !self.whole_topic {
            return KeyGate::Open;
        }
        let topic = self.topics.get(topic);
        let held = topic.and_then(|topic| {
            // An earlier event whose key Postgres can't store is there under another key.
            let stand_in = || topic.get(Some(&storable(ordering_key?)?), partition);
            topic.get(ordering_key, partition).or_else(stand_in)
        });
        match held {
            None if self.is_crowded || topic.is_some_and(|it| it.is_crowded) => KeyGate::Blocked,
            None => KeyGate::Open,
            Some(held) if held.handover_until.is_some_and(|until| until > now) => {
                KeyGate::OpeningSoon
            }
            Some(_) => KeyGate::Blocked,
        }
    }

    /// An event is on its way into the side table.
    pub fn hold(&mut self, key: &OrderKey) {
        if let Some(held) = self.entry(key) {
            held.being_parked += 1;
        }
    }

    /// An event has arrived there.
    pub fn parked(&mut self, key: &OrderKey) {
        if let Some(held) = self.get_mut(key) {
            held.being_parked = held.being_parked.saturating_sub(1);
        }
    }

    /// The side table will be done with a key in a moment.
    pub fn hand_over(&mut self, key: &OrderKey, until: Instant) {
        if let Some(held) = self.get_mut(key) {
            held.handover_until = Some(until);
        }
    }

    /// The side table has nothing more of a key.
    pub fn free(&mut self, key: &OrderKey) -> bool {
        let Some(topic) = self.topics.get_mut(&key.topic) else { return false };
        let is_free = topic.find(&key.within).is_some_and(|held| held.being_parked == 0);
        if is_free {
            topic.remove(&key.within);
            self.count -= 1;
            self.bytes = self.bytes.saturating_sub(bytes(key));
            if topic.len() == 0 && !topic.is_crowded {
                self.topics.remove(&key.topic);
            }
        }
        is_free
    }

    /// The next keys, round and round.
    pub fn next_batch(&mut self, max: usize) -> Vec<OrderKey> {
        if self.next_key >= self.count {
            self.next_key = 0;
        }
        let all = self.topics.iter().flat_map(|(topic, held)| {
            held.all().map(|within| OrderKey { topic: topic.clone(), within })
        });
        let some: Vec<OrderKey> = all.skip(self.next_key).take(max).collect();
        self.next_key += some.len();
        some
    }
}

/// What a key takes in memory in addition to its entry.
fn bytes(key: &OrderKey) -> usize {
    match &key.within {
        Within::Key(text) => text.len(),
        Within::Partition(_) | Within::Topic => 0,
    }
}

#[cfg(test)]
mod tests;
