//! One of two brokers is down: its topic's records wait while the other topics continue.

use std::time::Duration;

use postgres::Client;

use super::retention::{now_ms, oldest_offset, wait_for_the_brokers_next_check};
use crate::harness::metrics::metric;
use crate::timestamps::{BINARY, SOON};
use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

/// A timestamp may be half of it old when a record is sent, and the record may then wait for a
/// quarter of it. The last quarter is for the consumer and for the broker's next check.
const RETENTION_MS: i64 = 60_000;
const LONG: Duration = Duration::from_secs(120);

fn options() -> KafkaOptions {
    KafkaOptions::default()
        .setting("log.retention.check.interval.ms", "500")
        .setting("log.initial.task.delay.ms", "500")
}

#[track_caller]
fn write(client: &mut Client, topic: &str, key: &str) {
    let sql = "INSERT INTO outbox (topic, payload, ordering_key) VALUES ($1, '{}', $2)";
    client.execute(sql, &[&topic, &key]).unwrap();
}

#[test]
fn a_record_that_outlives_the_retention_beside_others_is_restamped() {
    let kafka = KafkaServer::start(options());
    let joins = Some(kafka.controller_port());
    let mut second = KafkaServer::start(KafkaOptions { joins, ..options() });
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "partial", &address, &kafka.broker());
    let retention = [("retention.ms", &*RETENTION_MS.to_string())];
    let (stuck, canary) = (fixture.topic("stuck"), fixture.topic("canary"));
    for topic in [&stuck, &canary] {
        kafka.broker().create_topic_at(2, topic, &retention);
    }
    let busy = fixture.topic("busy");
    kafka.broker().create_topic_at(1, &busy, &[]);
    let mut client = fixture.client();
    for topic in [&stuck, &busy] {
        write(&mut client, topic, "first");
    }
    fixture.start_relay().wait_ready(SOON);
    Consumer::new(&kafka.broker(), &[&stuck, &busy]).read_n(2, SOON);

    second.stop();
    write(&mut client, &stuck, "k");
    let committed = now_ms();
    // The others are acknowledged all the time, and the relay reports what holds its position.
    let mut reported = String::new();
    wait_until("the record to outlive the retention", LONG, || {
        write(&mut client, &busy, "others");
        let (status, reason) = fixture.relay().http_get("/readyz").unwrap();
        if status == 503 && reason.starts_with("blocked-on-broker: ") && reason.contains(&stuck) {
            reported = reason;
        }
        now_ms() - committed > RETENTION_MS + 2_000
    });
    assert!(
        reported.contains("holds the position"),
        "never reported what holds the position: {reported:?}"
    );
    let stamps = "postrider_restarts_total{reason=\"stamps\"}";
    let restarts = metric(fixture.relay(), stamps).unwrap_or_default();
    assert!((1.0..=6.0).contains(&restarts), "{restarts} restarts");

    second.start_again();
    let read = || {
        let is_it = |record: &Received| record.key_text() == Some("k");
        let consumer = Consumer::new(&kafka.broker(), &[&stuck]);
        let records = consumer.read_until(SOON, |records| records.iter().any(is_it));
        records.into_iter().find(is_it).unwrap()
    };
    let age = now_ms() - read().timestamp_ms.unwrap();
    assert!(age < RETENTION_MS, "acknowledged with a timestamp {age} ms old");
    // Acknowledged, and not deleted.
    wait_for_the_brokers_next_check(&second, &canary);
    let record = read();
    assert!(oldest_offset(&second, &stuck) <= record.offset);
    fixture.relay().wait_ready(SOON);
}
