//! What must have happened to every event that was written, and the verdict.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use rdkafka::Message;
use rdkafka::message::Headers;

use super::load::Written;
use super::{SOON, statuses};
use testkit::check::{Check, Expected, Verdict};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::wait::poll_for;

/// The expected final state, once every topic exists and nothing was replayed or discarded.
#[derive(Default)]
pub struct Model {
    /// What is in Kafka.
    expected: Expected,
    /// By id: why it is dead.
    dead: BTreeMap<String, String>,
    /// By id: what waits for a dead event of its key.
    waiting: BTreeMap<String, String>,
}

impl Model {
    /// With `park-key`.
    pub fn by_key(written: &[Written]) -> Model {
        let mut model = Model::default();
        let mut held = HashSet::new();
        for event in written {
            let Written { id, topic, key, fault, .. } = event;
            let lane = key.as_ref().map(|key| (topic.as_str(), key.as_str()));
            let is_held = lane.is_some_and(|lane| held.contains(&lane));
            match fault {
                // Detected before the order of the key is checked; the size is not.
                Some(fault) if !is_held || fault == "bad-headers" => {
                    model.dead.insert(id.clone(), fault.clone());
                    held.extend(lane);
                }
                _ if is_held => drop(model.waiting.insert(id.clone(), "behind".to_owned())),
                _ => model.expect(event, true),
            }
        }
        model
    }

    /// With `continue`: only events for `ordered` keep the order of their keys, as none of them that
    /// can be published is ever parked.
    pub fn overtaking(written: &[Written], ordered: &str) -> Model {
        let mut model = Model::default();
        for event in written {
            match &event.fault {
                Some(fault) => drop(model.dead.insert(event.id.clone(), fault.clone())),
                None => model.expect(event, event.topic == ordered),
            }
        }
        model
    }

    fn expect(&mut self, event: &Written, ordered: bool) {
        let Written { id, topic, key, .. } = event;
        match key {
            Some(key) if ordered => self.expected.push(topic, key, id),
            _ => self.expected.push_unordered(topic, id),
        }
    }

    /// Events that need not be in Kafka any more.
    pub fn forget(&mut self, written: &[Written], is_forgotten: impl Fn(&Written) -> bool) {
        self.expected = Expected::default();
        for event in written {
            let parked = self.dead.contains_key(&event.id) || self.waiting.contains_key(&event.id);
            if !parked && !is_forgotten(event) {
                self.expect(event, true);
            }
        }
    }

    /// Waits until the side table has reached its final state, and checks it.
    #[track_caller]
    pub fn wait_side_table(&self, fixture: &mut Fixture) {
        let live = |status: &str, count: usize| (status.to_owned(), i64::try_from(count).unwrap());
        let mut expect =
            BTreeMap::from([live("dead", self.dead.len()), live("pending", self.waiting.len())]);
        expect.retain(|_, count| *count > 0);
        let mut last = BTreeMap::new();
        let reached = poll_for(SOON, || {
            last = statuses(fixture);
            last.remove("delivered");
            (last == expect).then_some(())
        });
        if reached.is_none() {
            let unexpected = self.unexpected_rows(fixture);
            let log = fixture.relay().log_tail(30);
            panic!("the side table has {last:?} instead of {expect:?}\n{unexpected:#?}\n{log}");
        }
        let unexpected = self.unexpected_rows(fixture);
        assert!(unexpected.is_empty(), "not as they should be: {unexpected:#?}");
    }

    /// Rows of the side table that are not expected, and events with more than one row.
    #[track_caller]
    fn unexpected_rows(&self, fixture: &Fixture) -> Vec<String> {
        let sql = "SELECT row_id, status, reason, next_attempt_at = 'infinity', attempts, \
                locked_by, form, coalesce(last_error, ''), topic, ordering_key \
           FROM postrider.undelivered ORDER BY commit_lsn, change_lsn, ordinal";
        let mut seen = HashSet::new();
        let mut unexpected = Vec::new();
        for row in fixture.client().query(sql, &[]).unwrap() {
            let id: String = row.get(0);
            let (status, reason, waits): (&str, &str, bool) = (row.get(1), row.get(2), row.get(3));
            let expect = match (self.dead.get(&id), self.waiting.contains_key(&id)) {
                (Some(fault), _) => status == "dead" && reason == fault,
                (None, true) => status == "pending" && waits,
                (None, false) => status == "delivered",
            };
            if !(expect && seen.insert(id)) && unexpected.len() < 20 {
                unexpected.push(describe(&row));
            }
        }
        unexpected
    }

    /// Reads everything in the topics.
    #[track_caller]
    pub fn read(self, fixture: &Fixture, topics: &[&str]) -> Verdict {
        let consumer = Consumer::new(fixture.broker(), topics);
        let ends = topics.iter().flat_map(|topic| consumer.end_offsets(topic));
        let mut left = usize::try_from(ends.sum::<i64>()).unwrap();
        let mut check = Check::new(self.expected);
        let read = left == 0
            || consumer.for_each(SOON, |message| {
                let mut headers = message.headers().into_iter().flat_map(|it| it.iter());
                let id = headers.find(|header| header.key == "id").and_then(|it| it.value);
                let text = |bytes| std::str::from_utf8(bytes).unwrap();
                let key = message.key().map_or("", text);
                check.see(message.topic(), message.partition(), key, id.map_or("(no id)", text));
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        assert!(read, "{left} records could not be read");
        check.verdict()
    }
}

fn describe(row: &postgres::Row) -> String {
    let (id, status, reason): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
    let (waits, attempts): (bool, i32) = (row.get(3), row.get(4));
    let (locked_by, form): (Option<&str>, &str) = (row.get(5), row.get(6));
    let (error, topic): (&str, &str) = (row.get(7), row.get(8));
    let key: Option<&str> = row.get(9);
    format!(
        "event {id} of key {key:?} in {topic} is {status} for {reason} ({error}), attempts \
         {attempts}, waits {waits}, locked by {locked_by:?}, {form}"
    )
}
