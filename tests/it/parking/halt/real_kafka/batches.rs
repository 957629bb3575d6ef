//! The batch trap: a broker refuses whole batches without saying which of their events it refuses.

use super::super::{BINARY, MARKER, QUIET, SOON};
use crate::harness::halt::{last_two_lines, wait_halt};
use testkit::check::{Check, Expected};
use testkit::fixture::Fixture;

/// The topic's limit: enough for a few of the events below, but not for a batch of them.
pub(super) const LIMIT: (&str, &str) = ("max.message.bytes", "2000");
const KEYS: i64 = 7;

/// Writes 500 small events of several keys in one transaction, one of them with a payload that does
/// not fit, and returns the ids in order.
#[track_caller]
pub(super) fn write_many(fixture: &Fixture, topic: &str, large: Option<i64>) -> Vec<String> {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'key-' || n % $2::bigint,
               to_json(repeat($3, CASE WHEN n = $4::bigint THEN 400 ELSE 7 END))
          FROM generate_series(1, 500) n RETURNING id::text";
    let rows = fixture.client().query(sql, &[&topic, &KEYS, &MARKER, &large.unwrap_or(0)]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[track_caller]
pub(super) fn expected(topic: &str, ids: &[String]) -> Expected {
    let mut expected = Expected::default();
    for (n, id) in (1..).zip(ids) {
        expected.push(topic, &format!("key-{}", n % KEYS), id);
    }
    expected
}

/// All of them are published in order, and the relay still runs. A refused batch causes a restart,
/// which may repeat unconfirmed events.
#[track_caller]
pub(super) fn assert_all_published(fixture: &mut Fixture, topic: &str) {
    let ids = write_many(fixture, topic, None);
    fixture.start_relay();
    let consumer = fixture.consumer();
    let mut check = Check::new(expected(topic, &ids));
    while !check.is_complete() {
        let record = consumer.next(SOON).expect("no more records arrived");
        check.see(topic, record.partition, record.key_text().unwrap(), record.id());
    }
    check.verdict().assert_at_least_once(None);
    fixture.relay().wait_ready(SOON);
}

/// Everything before the large event is published, nothing of its key after it, and the relay's
/// last message names it. Other keys may have continued.
#[track_caller]
pub(super) fn assert_halts_at_the_large_one(fixture: &mut Fixture, topic: &str, reason: &str) {
    let ids = write_many(fixture, topic, Some(250));
    fixture.start_relay();
    let log = wait_halt(fixture);
    let [message, _] = last_two_lines(&log);
    let event = format!("event {} of table public.outbox", ids[249]);
    for part in [event.as_str(), topic, reason] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(!log.contains(MARKER), "content of an event in:\n{log}");
    let mut records = fixture.consumer().drain_quiet(QUIET);
    let its_key = format!("key-{}", 250 % KEYS);
    let later = &ids[250..];
    records.retain(|it| it.key_text() == Some(&its_key) || !later.iter().any(|id| id == it.id()));
    let verdict = expected(topic, &ids[..249]).verdict(&records);
    verdict.assert_at_least_once(None);
}

#[test]
fn events_that_fit_are_published_even_if_their_batch_does_not_fit() {
    let mut fixture = Fixture::new(BINARY, "fitting").halting();
    let topic = fixture.create_topic("events", 3, &[LIMIT]);
    assert_all_published(&mut fixture, &topic);
}

#[test]
fn exactly_the_event_that_does_not_fit_halts_the_relay() {
    let mut fixture = Fixture::new(BINARY, "mixed").halting();
    let topic = fixture.create_topic("events", 3, &[LIMIT]);
    assert_halts_at_the_large_one(&mut fixture, &topic, "the topic accepts 2000");
}
