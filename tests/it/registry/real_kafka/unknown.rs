//! Subjects that the registry does not know: their events are parked until it does.

use super::super::{
    GUID, PLAIN, PLAIN_ID, QUIET, SOON, framed, subject, wait_parked, with_registry, write,
};
use crate::harness::parked_events::{assert_contains_all, run_command};
use crate::harness::slot::wait_confirmed;
use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::registry_stub::Behaviour;

/// What two records of the same payload have in common.
fn look(record: &Received) -> (Option<Vec<u8>>, Vec<String>, Option<String>) {
    let names = record.headers.iter().map(|(name, _)| name.clone()).collect();
    (record.value.clone(), names, record.key_text().map(str::to_owned))
}

#[track_caller]
fn read_of(fixture: &Fixture, topic: &str, count: usize) -> Vec<Received> {
    let consumer = Consumer::new(fixture.broker(), &[topic]);
    let mut records = consumer.read_n(count, SOON);
    records.extend(consumer.drain_quiet(QUIET));
    records
}

#[test]
fn an_event_of_an_unknown_subject_is_delivered_once_it_is_registered() {
    let (stub, mut fixture) = with_registry("registry_unknown");
    let topic = fixture.create_topic("t", 1, &[]);
    let plain = fixture.create_topic(PLAIN, 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &topic, Some("k"), "{\"a\": 1}");
    let second = write(&fixture, &topic, Some("k"), "{\"a\": 1}");
    write(&fixture, &plain, None, "[]");
    assert_eq!(read_of(&fixture, &plain, 1)[0].value, framed(PLAIN_ID, "[]"));
    wait_confirmed(&fixture);
    let (reason, error, _) = wait_parked(&fixture, &first, "pending");
    let expect = format!("the schema registry has no schema for subject \"{topic}-value\"");
    assert_eq!((reason.as_str(), error), ("schema-missing", expect));
    assert_eq!(wait_parked(&fixture, &second, "pending").0, "behind");
    stub.register(&subject(&topic), 7, None);
    for id in [&first, &second] {
        wait_parked(&fixture, id, "delivered");
    }
    wait_confirmed(&fixture);
    let third = write(&fixture, &topic, Some("k"), "{\"a\": 1}");
    let records = read_of(&fixture, &topic, 3);
    assert_eq!(records.iter().map(Received::id).collect::<Vec<_>>(), [&first, &second, &third]);
    assert_eq!(records[0].value, framed(7, "{\"a\": 1}"));
    // The last one was sent directly.
    assert_eq!(super::super::parked(&fixture, &third), None);
    assert_eq!(look(&records[0]), look(&records[2]));
}

#[test]
fn a_missing_guid_parks_the_event() {
    let (stub, mut fixture) = with_registry("registry_guid");
    fixture.set("POSTRIDER_FORMAT_SCHEMA_IN", "header");
    fixture.unset("POSTRIDER_FORMAT_SCHEMA_IDS");
    let topic = fixture.create_topic("t", 1, &[]);
    stub.register(&subject(&topic), 7, None);
    fixture.start_relay().wait_ready(SOON);
    let id = write(&fixture, &topic, None, "{}");
    let (reason, error, _) = wait_parked(&fixture, &id, "pending");
    assert_eq!(reason, "schema-missing");
    assert_contains_all(&error, &["reports no GUID for subject", "set it to value"]);
    stub.register(&subject(&topic), 7, Some(GUID));
    wait_parked(&fixture, &id, "delivered");
    let records = read_of(&fixture, &topic, 1);
    let expect: Vec<u8> = std::iter::once(1).chain(0..16).collect();
    let last = records[0].headers.last().unwrap();
    assert_eq!(last, &("__value_schema_id".to_owned(), Some(expect)));
}

#[test]
fn a_dead_event_is_replayed_with_its_schema_and_a_registry_in_trouble_is_waited_for() {
    let (stub, mut fixture) = with_registry("registry_replay");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let id = write(&fixture, &topic, None, "{}");
    let (reason, ..) = wait_parked(&fixture, &id, "dead");
    assert_eq!(reason, "schema-missing");
    wait_confirmed(&fixture);
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(&text, &["failed again: 1", "schema-missing", "has no schema for subject"]);
    stub.register(&subject(&topic), 7, None);
    stub.behave(Behaviour::Status(503));
    let asked = stub.asked(&subject(&topic));
    std::thread::scope(|scope| {
        let replay = scope.spawn(|| run_command(&fixture, &["replay", "--all"], 0));
        testkit::wait::wait_until("replay to ask again", SOON, || {
            stub.asked(&subject(&topic)) >= asked + 2
        });
        stub.behave(Behaviour::Answers);
        assert_contains_all(&replay.join().unwrap(), &["replayed 1 of 1"]);
    });
    let records = read_of(&fixture, &topic, 1);
    assert_eq!((records.len(), &records[0].value), (1, &framed(7, "{}")));
    assert_eq!(records[0].header("replayed"), Some("true"));
}
