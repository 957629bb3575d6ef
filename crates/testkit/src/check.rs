//! The verdict: compares what was committed with what a consumer has read.

use std::collections::HashMap;
use std::fmt;

use super::consumer::Received;

/// The events that must arrive, in commit order.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    events: HashMap<String, Event>,
    lanes: HashMap<(String, String), Lane>,
}

#[derive(Clone, Debug)]
struct Event {
    topic: String,
    // `None`: the event has no ordering key, and nothing is promised about its order.
    key: Option<String>,
    position: usize,
    seen: bool,
}

// The events of one key in one topic, whose order is kept.
#[derive(Clone, Debug, Default)]
struct Lane {
    length: usize,
    highest_seen: Option<usize>,
    partition: Option<i32>,
}

impl Expected {
    /// Adds the next committed event of a key. Ids are unique over all topics.
    #[track_caller]
    pub fn push(&mut self, topic: &str, key: &str, id: impl fmt::Display) {
        let lane = self.lanes.entry((topic.to_owned(), key.to_owned())).or_default();
        let position = lane.length;
        lane.length += 1;
        self.insert(topic, Some(key.to_owned()), position, id.to_string());
    }

    /// Adds an event without an ordering key.
    #[track_caller]
    pub fn push_unordered(&mut self, topic: &str, id: impl fmt::Display) {
        self.insert(topic, None, 0, id.to_string());
    }

    #[track_caller]
    fn insert(&mut self, topic: &str, key: Option<String>, position: usize, id: String) {
        let event = Event { topic: topic.to_owned(), key, position, seen: false };
        assert!(self.events.insert(id, event).is_none(), "the same id is expected twice");
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    #[track_caller]
    pub fn verdict<'a>(self, received: impl IntoIterator<Item = &'a Received>) -> Verdict {
        let mut check = Check::new(self);
        for record in received {
            let (topic, key) = (record.topic.as_str(), record.key_text().unwrap_or(""));
            check.see(topic, record.partition, key, record.id());
        }
        check.verdict()
    }
}

/// A check that runs while records are read, for more of them than memory should hold.
#[derive(Clone, Debug)]
pub struct Check {
    expected: Expected,
    verdict: Verdict,
}

impl Check {
    pub fn new(expected: Expected) -> Check {
        let verdict = Verdict { expected: expected.len(), ..Verdict::default() };
        Check { expected, verdict }
    }

    /// Adds a record. Records of a partition must be added in order.
    pub fn see(&mut self, topic: &str, partition: i32, key: &str, id: &str) {
        let verdict = &mut self.verdict;
        verdict.received += 1;
        let Some(event) = self.expected.events.get_mut(id) else {
            verdict.unexpected.note(format!("{id} in {topic}"));
            return;
        };
        if event.topic != topic || event.key.as_deref().is_some_and(|expected| expected != key) {
            verdict.misplaced.note(format!("{id} in {topic} under key {key}"));
            return;
        }
        // Later occurrences prove nothing about order: only the first is the delivery.
        if event.seen {
            verdict.duplicates.note(id.to_owned());
            return;
        }
        event.seen = true;
        if event.key.is_none() {
            return;
        }
        let lane = (topic.to_owned(), key.to_owned());
        let lane = self.expected.lanes.get_mut(&lane).expect("pushed together with the event");
        if lane.highest_seen.is_some_and(|highest| highest > event.position) {
            verdict.out_of_order.note(format!("{id} of key {key} in {topic}"));
        }
        lane.highest_seen = lane.highest_seen.max(Some(event.position));
        if *lane.partition.get_or_insert(partition) != partition {
            verdict.split.note(format!("{id}: key {key} of {topic} also in partition {partition}"));
        }
    }

    /// Whether every expected event has arrived at least once.
    pub fn is_complete(&self) -> bool {
        let verdict = &self.verdict;
        let faults = verdict.unexpected.count + verdict.misplaced.count + verdict.duplicates.count;
        verdict.received - faults == verdict.expected
    }

    pub fn verdict(mut self) -> Verdict {
        for (id, event) in &self.expected.events {
            if !event.seen {
                self.verdict.lost.note(format!("{id} of {}", event.topic));
            }
        }
        self.verdict
    }
}

/// How often a fault was found, and the first few cases.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    pub count: usize,
    pub examples: Vec<String>,
}

impl Fault {
    fn note(&mut self, example: String) {
        self.count += 1;
        if self.examples.len() < 5 {
            self.examples.push(example);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub expected: usize,
    pub received: usize,
    /// Expected and never read.
    pub lost: Fault,
    /// Read and never committed.
    pub unexpected: Fault,
    /// Read under another topic or key than expected.
    pub misplaced: Fault,
    /// Events that first occurred after a later event of their key.
    pub out_of_order: Fault,
    /// Keys in more than one partition of their topic, so that their order is lost.
    pub split: Fault,
    /// Occurrences after the first.
    pub duplicates: Fault,
}

impl Verdict {
    /// Requires every event once, nothing else, in order.
    #[track_caller]
    pub fn assert_exact(&self) {
        self.assert_at_least_once(Some(0));
    }

    /// Requires every event, nothing else, in order of first occurrence; duplicates up to a limit.
    #[track_caller]
    pub fn assert_at_least_once(&self, max_duplicates: Option<usize>) {
        let Verdict { lost, unexpected, misplaced, out_of_order, split, .. } = self;
        let faults = [lost, unexpected, misplaced, out_of_order, split];
        assert!(faults.iter().all(|fault| fault.count == 0), "the promise is broken: {self}");
        if let Some(max) = max_duplicates {
            assert!(self.duplicates.count <= max, "more than {max} duplicates: {self}");
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, received {}", self.expected, self.received)?;
        for (name, fault) in [
            ("lost", &self.lost),
            ("unexpected", &self.unexpected),
            ("misplaced", &self.misplaced),
            ("out of order", &self.out_of_order),
            ("split keys", &self.split),
            ("duplicates", &self.duplicates),
        ] {
            write!(f, ", {name} {}", fault.count)?;
            if !fault.examples.is_empty() {
                write!(f, " ({}{})", fault.examples.join("; "), fault.ellipsis())?;
            }
        }
        Ok(())
    }
}

impl Fault {
    fn ellipsis(&self) -> &'static str {
        if self.count > self.examples.len() { "; …" } else { "" }
    }
}
