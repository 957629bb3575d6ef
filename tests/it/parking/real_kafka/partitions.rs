//! Events without an ordering key that choose a partition, and topics that keep their order as a
//! whole.

use super::super::{BINARY, SOON, is_parked, wait_statuses, with_fast_poller};
use crate::harness::slot::wait_confirmed;
use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

/// Writes an event and returns its id.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, key: Option<&str>, partition: Option<i32>) -> String {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, partition, payload)
        VALUES ($1, $2, $3, '{}') RETURNING id::text";
    fixture.client().query_one(sql, &[&topic, &key, &partition]).unwrap().get(0)
}

/// Writes such events for a missing topic, creates it, and continues until events are published
/// directly. Returns the ids in the order of writing.
#[track_caller]
fn through_a_missing_topic(
    fixture: &mut Fixture,
    partitions: i32,
    write: impl Fn(&Fixture, &str, usize) -> String,
) -> Vec<String> {
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let mut written: Vec<String> = (0..30).map(|n| write(fixture, &missing, n)).collect();
    wait_confirmed(fixture);
    wait_statuses(fixture, &[("pending", 30)]);
    fixture.create_topic("missing", partitions, &[]);
    wait_until("new events to be published directly", SOON, || {
        let new: Vec<String> = (0..10).map(|n| write(fixture, &missing, n)).collect();
        written.extend(new.iter().cloned());
        wait_confirmed(fixture);
        !new.iter().any(|id| is_parked(fixture, id))
    });
    written
}

#[track_caller]
fn assert_order(fixture: &Fixture, partition: i32, expect: &[&String], all: usize) {
    let topic = fixture.topic("missing");
    let records = Consumer::new(fixture.broker(), &[&topic]).read_n(all, SOON);
    let of_partition = records.iter().filter(|it| it.partition == partition);
    let ids: Vec<&str> = of_partition.map(Received::id).collect();
    assert_eq!(ids, expect);
}

#[test]
fn a_partition_keeps_the_order_of_its_events_through_a_missing_topic() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "by_partition"));
    let partition = |number: usize| i32::try_from(number % 3).unwrap();
    let written = through_a_missing_topic(&mut fixture, 3, |fixture, topic, number| {
        write(fixture, topic, None, Some(partition(number)))
    });
    for wanted in 0..3 {
        let expect = written.iter().enumerate().filter(|(place, _)| {
            // Thirty first, then ten at a time: each round begins with partition 0.
            let number = if *place < 30 { *place } else { (*place - 30) % 10 };
            partition(number) == wanted
        });
        let expect: Vec<&String> = expect.map(|(_, id)| id).collect();
        assert_order(&fixture, wanted, &expect, written.len());
    }
}

#[test]
fn a_dead_event_holds_its_partition_and_no_other() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "held_partition"));
    let topic = fixture.create_topic("events", 2, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, partition, payload, headers)
        VALUES ($1, 0, '{}', '[]')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let held = write(&fixture, &topic, None, Some(0));
    let free = [
        write(&fixture, &topic, None, Some(1)),
        write(&fixture, &topic, Some("k"), Some(0)),
        write(&fixture, &topic, None, None),
    ];
    wait_statuses(&fixture, &[("dead", 1), ("pending", 1)]);
    let records = fixture.consumer().read_n(3, SOON);
    let mut ids: Vec<&str> = records.iter().map(Received::id).collect();
    ids.sort_by_key(|id| id.parse::<i64>().unwrap());
    assert_eq!(ids, free);
    let output = fixture.run(&["dead", "discard", "--all", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait_statuses(&fixture, &[("discarded", 1), ("delivered", 1)]);
    assert!(fixture.consumer().read_n(4, SOON).iter().any(|it| it.id() == held));
}

#[test]
fn with_park_topic_a_topic_keeps_the_order_of_all_its_events() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "by_topic"));
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "park-topic");
    let written = through_a_missing_topic(&mut fixture, 1, |fixture, topic, number| {
        let key = (number % 3 == 0).then(|| format!("k{}", number % 2));
        write(fixture, topic, key.as_deref(), None)
    });
    assert_order(&fixture, 0, &written.iter().collect::<Vec<_>>(), written.len());
}

/// Parked events keep the order that is configured now.
#[test]
fn the_order_can_be_changed_while_events_are_parked() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "reordered"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload, headers)
        VALUES ($1, 'k', '{}', '[]')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    wait_statuses(&fixture, &[("dead", 1)]);
    wait_confirmed(&fixture);
    fixture.relay().kill9();
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "park-topic");
    fixture.start_relay().wait_ready(SOON);
    let waiting = write(&fixture, &topic, Some("l"), None);
    wait_statuses(&fixture, &[("dead", 1), ("pending", 1)]);
    wait_confirmed(&fixture);
    fixture.relay().kill9();
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "park-key");
    fixture.start_relay().wait_ready(SOON);
    wait_statuses(&fixture, &[("dead", 1), ("delivered", 1)]);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), waiting);
}
