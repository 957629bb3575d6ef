//! What decides the partition decides the order.

use std::collections::{BTreeMap, BTreeSet};

use super::{SOON, prepared};
use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const EVENTS: i32 = 400;
const KEYS: i32 = 20;
const PARTITIONS: i32 = 6;

/// The record's key is the event's own; events of one ordering key stay together.
fn keyed_by_event(name: &str) -> Fixture {
    let mut fixture = prepared(name, "");
    fixture.set("POSTRIDER_ROUTE_KEY", "idempotency_key");
    fixture.set("POSTRIDER_ROUTE_PARTITION_BY", "ordering_key");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "200ms");
    fixture.migrate();
    fixture
}

fn write(fixture: &Fixture, topic: &str, from: i32) {
    let sql = "insert into public.outbox (topic, payload, idempotency_key, ordering_key)
        select $1, to_json(n), 'i-' || n, 'k-' || n % $4 from generate_series($2::int, $3) n";
    fixture.client().execute(sql, &[&topic, &from, &(from + EVENTS - 1), &KEYS]).unwrap();
}

/// Each key is in one partition, in order; and each record has a key of its own.
fn check(records: &[Received], count: usize) -> BTreeMap<i32, i32> {
    let mut by_key: BTreeMap<i32, Vec<(i32, i32)>> = BTreeMap::new();
    let mut keys = BTreeSet::new();
    for record in records {
        let number: i32 = record.value_text().unwrap().parse().unwrap();
        assert_eq!(record.key_text(), Some(format!("i-{number}").as_str()));
        if keys.insert(number) {
            by_key.entry(number % KEYS).or_default().push((record.partition, number));
        }
    }
    assert_eq!(keys.len(), count);
    let mut partitions = BTreeMap::new();
    for (key, found) in by_key {
        assert!(found.iter().all(|(partition, _)| *partition == found[0].0), "{key}: {found:?}");
        assert!(found.is_sorted_by_key(|(_, number)| *number), "{key}: {found:?}");
        partitions.insert(key, found[0].0);
    }
    partitions
}

#[test]
fn the_partition_can_be_decided_by_something_other_than_the_key() {
    let mut fixture = keyed_by_event("partition_by");
    let topic = fixture.create_topic("orders", PARTITIONS, &[]);
    write(&fixture, &topic, 1);
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(EVENTS as usize, SOON);
    let chosen = check(&records, EVENTS as usize);

    // Where a producer that has the ordering key as its key would put them.
    let plain = fixture.create_topic("plain", PARTITIONS, &[]);
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    fixture.unset("POSTRIDER_ROUTE_KEY").unset("POSTRIDER_ROUTE_PARTITION_BY");
    let sql = "insert into public.outbox (topic, payload, ordering_key)
        select $1, to_json(n), 'k-' || n from generate_series(0, $2 - 1) n";
    fixture.client().execute(sql, &[&plain, &KEYS]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = Consumer::new(fixture.broker(), &[&plain]).read_n(KEYS as usize, SOON);
    for record in records {
        let key: i32 = record.value_text().unwrap().parse().unwrap();
        assert_eq!(chosen[&key], record.partition, "k-{key}");
    }
}

/// Without a value to partition by, the key decides.
#[test]
fn without_a_value_the_key_decides() {
    let mut fixture = keyed_by_event("partition_null");
    let topic = fixture.create_topic("orders", PARTITIONS, &[]);
    let sql = "insert into public.outbox (topic, payload, idempotency_key)
        select $1, to_json(n), 'i-' || n from generate_series(1, 60) n";
    fixture.client().execute(sql, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(60, SOON);
    let partitions: BTreeSet<i32> = records.iter().map(|record| record.partition).collect();
    assert_eq!(partitions.len(), PARTITIONS as usize);
}

mod real_kafka {
    use super::*;

    /// The topic does not exist at first, so everything is parked, and sent by the poller.
    #[test]
    fn parked_events_keep_partition_and_order() {
        let mut fixture = keyed_by_event("partition_parked");
        let topic = fixture.topic("orders");
        fixture.start_relay().wait_ready(SOON);
        write(&fixture, &topic, 1);
        let mut client = fixture.client();
        let sql = "select count(*) from postrider.undelivered where status = 'pending'
            and partition_by = convert_to(ordering_key, 'UTF8')";
        wait_until("all events are parked", SOON, || {
            client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == i64::from(EVENTS)
        });
        let topic = fixture.create_topic("orders", PARTITIONS, &[]);
        write(&fixture, &topic, EVENTS + 1);
        let all = 2 * EVENTS as usize;
        let consumer = fixture.consumer();
        let records = consumer.read_until(SOON, |so_far| {
            so_far.iter().map(|it| &it.key).collect::<BTreeSet<_>>().len() == all
        });
        check(&records, all);
    }

    /// Records that the broker refuses send the topic through the careful lane.
    #[test]
    fn refused_events_do_not_move_others_of_their_key() {
        let mut fixture = keyed_by_event("partition_refused");
        let topic = fixture.create_topic("orders", PARTITIONS, &[("max.message.bytes", "2000")]);
        let sql = "insert into public.outbox (topic, payload, idempotency_key, ordering_key)
            select $1, case when n % 40 = 7 then to_json(repeat(md5(n::text), 100)) else to_json(n) end,
                'i-' || n, 'k-' || n % $3 from generate_series(1, $2::int) n where n % $3 <> 9";
        // Compression hides the size beforehand, so only the broker can refuse them.
        fixture.set("POSTRIDER_KAFKA_PROPERTIES_COMPRESSION_CODEC", "gzip");
        fixture.client().execute(sql, &[&topic, &EVENTS, &KEYS]).unwrap();
        fixture.start_relay().wait_ready(SOON);
        let refused_keys = 1;
        let expected = (EVENTS - EVENTS / KEYS) as usize;
        let consumer = fixture.consumer();
        let fine = |record: &Received| record.value_text().unwrap().parse::<i32>().is_ok();
        // Of the key whose events are refused, those after the first refused one wait.
        let parked = (EVENTS / KEYS * refused_keys) as usize;
        let records = consumer.read_until(SOON, |so_far| {
            so_far.iter().map(|it| &it.key).collect::<BTreeSet<_>>().len() >= expected - parked
        });
        let records: Vec<Received> = records.into_iter().filter(fine).collect();
        let distinct: BTreeSet<_> = records.iter().map(|it| it.key.clone()).collect();
        check(&records, distinct.len());
    }
}
