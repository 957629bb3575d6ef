//! The timestamp trap: records with a timestamp older than their topic's retention are
//! acknowledged, and deleted at the next check.

use std::time::{SystemTime, UNIX_EPOCH};

use postgres::Client;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::harness::metrics::metric;
use crate::timestamps::{BINARY, SOON};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

const RETENTION_MS: i64 = 12_000;
const VERY_OLD_MS: i64 = 24 * 60 * 60 * 1_000;

pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// The offset of the oldest remaining record.
#[track_caller]
pub fn oldest_offset(kafka: &KafkaServer, topic: &str) -> i64 {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.brokers()).set("group.id", "harness");
    let client: BaseConsumer = config.create().unwrap();
    client.fetch_watermarks(topic, 0, SOON).unwrap().0
}

/// Shows what would happen otherwise: writes a very old record and waits until it is deleted, which
/// also proves that the broker has checked for old records since.
#[track_caller]
pub fn wait_for_the_brokers_next_check(kafka: &KafkaServer, topic: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.brokers());
    let producer: BaseProducer = config.create().unwrap();
    let record = BaseRecord::<str, str>::to(topic).payload("old");
    let record = record.timestamp(now_ms() - VERY_OLD_MS);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(SOON).unwrap();
    wait_until("an old record to be deleted", SOON, || oldest_offset(kafka, topic) == 1);
}

#[track_caller]
fn write_event(client: &mut Client, topic: &str) -> (i64, i64) {
    let begun = now_ms();
    let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '{}')";
    client.execute(sql, &[&topic]).unwrap();
    (begun, now_ms())
}

#[test]
fn events_older_than_the_retention_are_restamped_so_that_they_are_kept() {
    let options = KafkaOptions::default()
        .setting("log.retention.check.interval.ms", "500")
        .setting("log.initial.task.delay.ms", "500");
    let kafka = KafkaServer::start(options);
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "old", &address, &kafka.broker()).halting();
    let retention = [("retention.ms", &*RETENTION_MS.to_string())];
    let topic = fixture.create_topic("events", 1, &retention);
    kafka.create_topic(&fixture.topic("canary"), 1, &retention);
    let mut client = fixture.client();
    let committed: Vec<_> = (0..3).map(|_| write_event(&mut client, &topic)).collect();
    wait_until("the events to outlive the retention", SOON, || {
        now_ms() - committed[2].1 > RETENTION_MS + 1_000
    });
    let started = now_ms();
    fixture.start_relay();
    let records = fixture.consumer().read_n(3, SOON);
    wait_for_the_brokers_next_check(&kafka, &fixture.topic("canary"));
    assert_eq!(oldest_offset(&kafka, &topic), 0, "acknowledged and deleted");

    for (record, (earliest, latest)) in records.iter().zip(committed) {
        let stamp = record.timestamp_ms.unwrap();
        let allowed = started - RETENTION_MS / 2..=now_ms();
        assert!(allowed.contains(&stamp), "{stamp} not in {allowed:?}");
        let original = record.header("committed-at").expect("no committed-at");
        let original = humantime::parse_rfc3339(original).unwrap();
        let original = original.duration_since(UNIX_EPOCH).unwrap();
        let original = i64::try_from(original.as_millis()).unwrap();
        assert!((earliest..=latest).contains(&original), "{original}");
    }
}

#[test]
fn events_that_outlived_the_retention_in_flight_are_restamped() {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "stale", &address, &kafka.broker()).halting();
    let retention = [("retention.ms", &*RETENTION_MS.to_string())];
    let topic = fixture.create_topic("events", 1, &retention);
    let mut client = fixture.client();
    write_event(&mut client, &topic);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(1, SOON);
    kafka.stop();
    let (_, committed) = write_event(&mut client, &topic);
    wait_until("the event to outlive the retention in flight", SOON, || {
        now_ms() - committed > RETENTION_MS
            && metric(fixture.relay(), "postrider_restarts_total{reason=\"stamps\"}").is_some()
    });
    let started = now_ms();
    kafka.start_again();
    let records = fixture.consumer().read_until(SOON, |records| records.len() >= 2);
    let stamp = records[1].timestamp_ms.unwrap();
    assert!(stamp >= started - RETENTION_MS, "a timestamp {} ms old", started - stamp);
    assert!(records[1].header("committed-at").is_some());
}

/// However long the stop may take.
#[test]
fn a_stop_does_not_wait_for_an_event_whose_timestamp_has_become_too_old() {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "stale_stop", &address, &kafka.broker()).halting();
    fixture.set("POSTRIDER_RELAY_SHUTDOWN_TIMEOUT", "1h");
    let retention = [("retention.ms", &*RETENTION_MS.to_string())];
    let topic = fixture.create_topic("events", 1, &retention);
    let mut client = fixture.client();
    write_event(&mut client, &topic);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(1, SOON);
    kafka.stop();
    write_event(&mut client, &topic);
    wait_until("the event to be in flight", SOON, || {
        metric(fixture.relay(), "postrider_in_flight_events") == Some(1.0)
    });
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    let log = fixture.relay().log();
    assert!(status.success() && log.contains("they will be published again"), "{log}");
    kafka.start_again();
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_until(SOON, |records| records.len() >= 2);
}

#[test]
fn a_recent_event_keeps_its_commit_time() {
    let mut fixture = Fixture::new(BINARY, "recent").halting();
    let topic = fixture.create_topic("events", 1, &[("retention.ms", "3600000")]);
    let (earliest, latest) = write_event(&mut fixture.client(), &topic);
    fixture.start_relay();
    let records = fixture.consumer().read_n(1, SOON);
    let stamp = records[0].timestamp_ms.unwrap();
    assert!((earliest..=latest).contains(&stamp), "{stamp}");
    assert_eq!(records[0].header("committed-at"), None);
}

/// Setting a very short retention is the well-known way to empty a topic.
#[test]
fn a_topic_that_keeps_nothing_disturbs_no_other() {
    let mut fixture = Fixture::new(BINARY, "emptied");
    let retentions = ["1", "100", "1000"];
    let emptied = retentions
        .map(|ms| fixture.create_topic(&format!("emptied_{ms}"), 1, &[("retention.ms", ms)]));
    let other = fixture.create_topic("other", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let consumer = Consumer::new(fixture.broker(), &[&other]);
    for topic in emptied.iter().cycle().take(9) {
        // Longer than the shortest time after which an event could count as expired.
        let written = now_ms();
        wait_until("a moment to pass", SOON, || now_ms() - written > 600);
        write_event(&mut client, topic);
        write_event(&mut client, &other);
        consumer.next(SOON).expect("an event of another topic");
    }
    wait_until("all to be confirmed", SOON, || {
        metric(fixture.relay(), "postrider_in_flight_events") == Some(0.0)
    });
    let ends =
        emptied.map(|topic| Consumer::new(fixture.broker(), &[&topic]).end_offsets(&topic)[0]);
    assert_eq!(ends, [3, 3, 3], "events were published again");
    assert_eq!(metric(fixture.relay(), "postrider_restarts_total{reason=\"stamps\"}"), None);
}
