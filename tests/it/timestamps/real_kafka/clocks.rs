//! Timestamps that the broker refuses or retention deletes, because a clock is wrong or because the
//! settings of a topic can't be read.

use std::process::Command;

use tempfile::TempDir;

use super::retention::{now_ms, oldest_offset, wait_for_the_brokers_next_check};
use crate::harness::metrics::metric;
use crate::harness::topics::{assert_was_denied, deny_describe_configs, kafka_with_rules};
use crate::timestamps::{BINARY, SOON};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

const HOUR_MS: i64 = 3_600_000;

/// Builds a library that makes a relay's clock wrong: the tests need a C compiler anyway.
#[track_caller]
fn wrong_clock(folder: &TempDir) -> String {
    let library = folder.path().join("wrong_clock.so");
    let source =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/timestamps/real_kafka/wrong_clock.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    library.to_str().unwrap().to_owned()
}

#[track_caller]
fn write(fixture: &Fixture, topic: &str, count: i64) {
    let sql = "INSERT INTO outbox (topic, payload, ordering_key)
        SELECT $1, to_json(n), 'k' FROM generate_series(1, $2::bigint) n";
    fixture.client().execute(sql, &[&topic, &count]).unwrap();
}

#[track_caller]
fn parked(fixture: &Fixture) -> i64 {
    let sql = "SELECT count(*) FROM postrider.undelivered";
    fixture.client().query_one(sql, &[]).unwrap().get(0)
}

/// Publishes three events by a relay with a wrong clock, to a topic with this retention.
#[track_caller]
fn published(kafka: &KafkaServer, name: &str, wrong_by: i64, retention_ms: i64) -> Vec<Received> {
    let folder = TempDir::new().unwrap();
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, name, &address, &kafka.broker());
    let retention = [("retention.ms", &*retention_ms.to_string())];
    let topic = fixture.create_topic("events", 1, &retention);
    let retention = [("retention.ms", &*HOUR_MS.to_string())];
    kafka.create_topic(&fixture.topic("canary"), 1, &retention);
    fixture.set("LD_PRELOAD", &wrong_clock(&folder));
    fixture.set("WRONG_CLOCK_SECONDS", &wrong_by.to_string());
    write(&fixture, &topic, 3);
    fixture.start_relay();
    let records = fixture.consumer().read_n(3, SOON);
    wait_for_the_brokers_next_check(kafka, &fixture.topic("canary"));
    assert_eq!(oldest_offset(kafka, &topic), 0, "acknowledged and deleted");
    assert_eq!(parked(&fixture), 0);
    let values: Vec<_> = records.iter().map(|it| it.value_text().unwrap()).collect();
    assert_eq!(values, ["1", "2", "3"]);
    wait_until("the clocks to be compared", SOON, || {
        let difference = metric(fixture.relay(), "postrider_clock_difference_seconds");
        difference.is_some_and(|seconds| (seconds + wrong_by as f64).abs() < 5.0)
    });
    let log = fixture.relay().log();
    let warnings = log.lines().filter(|line| line.contains("that of the Postgres server")).count();
    assert_eq!(warnings, 1, "{log}");
    records
}

#[test]
fn a_machine_with_a_wrong_clock_loses_nothing() {
    let options = KafkaOptions::default()
        .setting("log.retention.check.interval.ms", "500")
        .setting("log.initial.task.delay.ms", "500");
    let kafka = KafkaServer::start(options);
    // A week slow: its own time is long past the topic's retention.
    for record in published(&kafka, "week_behind", -7 * 24 * 3600, 2 * HOUR_MS) {
        let age = now_ms() - record.timestamp_ms.unwrap();
        assert!(age < 2 * HOUR_MS, "{age} ms old");
        assert!(record.header("committed-at").is_some());
    }
    // Hours fast, where the topic allows any timestamp, and where the broker refuses timestamps
    // that are old by that clock but in the future by its own.
    for (name, retention_ms) in [("ahead", 7 * 24 * HOUR_MS), ("ahead_short", 2 * HOUR_MS)] {
        for record in published(&kafka, name, 5 * 3600, retention_ms) {
            let age = now_ms() - record.timestamp_ms.unwrap();
            assert!((0..5 * 60_000).contains(&age), "{name}: {age} ms old");
        }
    }
}

#[test]
fn a_refused_timestamp_is_replaced_by_the_current_time() {
    let kafka = kafka_with_rules();
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "secret_stamps", &address, &kafka.broker());
    let limit = ("message.timestamp.before.max.ms", "2000");
    let topic = fixture.create_topic("events", 1, &[limit]);
    deny_describe_configs(&kafka.broker(), &topic);
    write(&fixture, &topic, 20);
    let committed = now_ms();
    wait_until("the events to be too old", SOON, || now_ms() - committed > 3_000);
    fixture.start_relay();
    let records = fixture.consumer().read_n(20, SOON);
    assert_was_denied(&mut fixture);
    let values: Vec<_> = records.iter().map(|it| it.value_text().unwrap().to_owned()).collect();
    assert_eq!(values, (1..=20).map(|n| n.to_string()).collect::<Vec<_>>());
    for record in &records {
        assert!(record.timestamp_ms.unwrap() >= committed + 1_000);
        assert!(record.header("committed-at").is_some());
    }
    assert_eq!(parked(&fixture), 0);
}
