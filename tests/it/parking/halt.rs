//! With `undelivered.order = halt`, the relay halts before an event that can't be published,
//! reports which one and why, and holds its position. No later event of its key is published.

mod real_kafka;
mod rows;

use std::time::Duration;

use postgres::types::ToSql;

use crate::harness::halt::{last_two_lines, wait_halt};
use testkit::check::{Check, Expected};
use testkit::consumer::Received;
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Long enough for a record that was sent to be read.
const QUIET: Duration = Duration::from_secs(2);
/// Part of every payload and header: it must not appear in any log.
const MARKER: &str = "s3cret-m4rker";

/// Fields of an event that differ from the usual ones.
#[derive(Default)]
struct Overrides<'a> {
    payload: Option<&'a str>,
    headers: Option<&'a str>,
    partition: Option<i32>,
}

/// Writes one event in its own transaction and returns its id.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, key: &str, overrides: &Overrides<'_>) -> String {
    let usual = format!("{{\"p\":\"{MARKER}\"}}");
    let payload = overrides.payload.unwrap_or(&usual);
    let headers = overrides.headers.unwrap_or(&usual);
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload, headers, partition)
        VALUES ($1, $2, $3::text::json, $4::text::json, $5) RETURNING id::text";
    let values: [&(dyn ToSql + Sync); 5] = [&topic, &key, &payload, &headers, &overrides.partition];
    fixture.client().query_one(sql, &values).unwrap().get(0)
}

/// A bad event among good ones.
struct Scenario {
    fixture: Fixture,
    bad_topic: String,
    bad_id: String,
    /// Committed before the bad event.
    before: Expected,
}

impl Scenario {
    /// Good events of two keys, the bad one of the first key, good ones of both again.
    #[track_caller]
    fn new(
        fixture: Fixture,
        good_topic: &str,
        bad_topic: &str,
        overrides: &Overrides<'_>,
    ) -> Scenario {
        let mut before = Expected::default();
        let good = Overrides::default();
        for key in ["bad-key", "other-key", "bad-key"] {
            let id = write(&fixture, good_topic, key, &good);
            before.push(good_topic, key, id);
        }
        let bad_id = write(&fixture, bad_topic, "bad-key", overrides);
        for key in ["bad-key", "other-key"] {
            write(&fixture, good_topic, key, &good);
        }
        Scenario { fixture, bad_topic: bad_topic.to_owned(), bad_id, before }
    }

    /// Starts the relay and checks its last message.
    #[track_caller]
    fn assert_halts(&mut self, reason: &str) {
        self.fixture.start_relay();
        let log = wait_halt(&mut self.fixture);
        let [message, _] = last_two_lines(&log);
        let event = format!("event {} of table public.outbox", self.bad_id);
        // An illegal name could be anything, so it is not shown.
        let legal = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        let is_legal =
            (1..=249).contains(&self.bad_topic.len()) && self.bad_topic.chars().all(legal);
        let topic = if is_legal {
            format!("{:?}", self.bad_topic)
        } else {
            format!("an illegal name of {} bytes", self.bad_topic.len())
        };
        for part in [event.as_str(), topic.as_str(), reason] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
        assert!(!log.contains(MARKER), "content of an event in:\n{log}");
    }

    /// The good topic has exactly what was committed before the bad event. If the broker refused
    /// it, there was a restart, which may repeat unconfirmed events.
    #[track_caller]
    fn assert_only_earlier_published(&self, duplicates_max: usize) {
        let records = self.fixture.consumer().drain_quiet(QUIET);
        let verdict = self.before.clone().verdict(&records);
        verdict.assert_at_least_once(Some(duplicates_max));
    }

    /// The same if later events of other topics may be published too: a reader can't distinguish
    /// them.
    #[track_caller]
    fn assert_earlier_published(&self, duplicates_max: usize) {
        let mut records = self.fixture.consumer().drain_quiet(QUIET);
        let bad: u64 = self.bad_id.parse().unwrap();
        records.retain(|record| record.id().parse::<u64>().unwrap() < bad);
        let verdict = self.before.clone().verdict(&records);
        verdict.assert_at_least_once(Some(duplicates_max));
    }

    /// All events, in the order of their commits.
    #[track_caller]
    fn everything(&self) -> Expected {
        let sql = "SELECT id::text, topic, ordering_key FROM public.outbox ORDER BY id";
        let mut expected = Expected::default();
        for row in self.fixture.client().query(sql, &[]).unwrap() {
            let [id, topic, key]: [String; 3] = [row.get(0), row.get(1), row.get(2)];
            expected.push(&topic, &key, id);
        }
        expected
    }

    /// The relay continues: the bad event and everything around it is published, in order.
    #[track_caller]
    fn assert_continues(&mut self, duplicates_max: usize) {
        self.fixture.start_relay().wait_ready(SOON);
        let mut check = Check::new(self.everything());
        let consumer = self.fixture.consumer();
        let see = |check: &mut Check, it: &Received| {
            check.see(&it.topic, it.partition, it.key_text().unwrap(), it.id());
        };
        while !check.is_complete()
            && let Some(record) = consumer.next(SOON)
        {
            see(&mut check, &record);
        }
        let rest = consumer.drain_quiet(QUIET);
        rest.iter().for_each(|record| see(&mut check, record));
        check.verdict().assert_at_least_once(Some(duplicates_max));
    }
}
