//! Brokers before 4.0, which still have a setting that 4.0 dropped.

use std::time::UNIX_EPOCH;

use super::retention::now_ms;
use crate::timestamps::{BINARY, SOON};
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer, Release};
use testkit::shared;

const EVENTS: i64 = 20;
/// How far from the broker's time a timestamp may be.
const ALLOWED_MS: i64 = 60_000;
const AGE_MS: i64 = 5 * 60_000;

/// Writes events in a transaction with this commit time in the WAL: a replicated transaction keeps
/// the commit time of its origin.
#[track_caller]
fn write_committed_at(fixture: &Fixture, topic: &str, commit_ms: i64) {
    let mut client = fixture.client();
    let origin = fixture.database();
    client.execute("SELECT pg_replication_origin_create($1)", &[&origin]).unwrap();
    client.execute("SELECT pg_replication_origin_session_setup($1)", &[&origin]).unwrap();
    let mut transaction = client.transaction().unwrap();
    let sql = "SELECT pg_replication_origin_xact_setup('0/1', to_timestamp($1::bigint / 1000.0))";
    transaction.execute(sql, &[&commit_ms]).unwrap();
    let sql = "INSERT INTO outbox (topic, payload, ordering_key)
        SELECT $1, to_json(n), 'k' FROM generate_series(1, $2::bigint) n";
    transaction.execute(sql, &[&topic, &EVENTS]).unwrap();
    transaction.commit().unwrap();
    client.execute("SELECT pg_replication_origin_session_reset()", &[]).unwrap();
    client.execute("SELECT pg_replication_origin_drop($1)", &[&origin]).unwrap();
}

#[test]
fn events_older_than_message_timestamp_difference_max_ms_are_restamped() {
    let options = KafkaOptions { release: Release::Three, ..KafkaOptions::default() };
    let kafka = KafkaServer::start(options);
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "before_four", &address, &kafka.broker());
    let settings = [
        ("message.timestamp.type", "CreateTime"),
        ("message.timestamp.difference.max.ms", &*ALLOWED_MS.to_string()),
    ];
    let topic = fixture.create_topic("events", 1, &settings);
    let committed = now_ms() - AGE_MS;
    write_committed_at(&fixture, &topic, committed);

    let started = now_ms();
    fixture.start_relay();
    let records = fixture.consumer().read_n(EVENTS.try_into().unwrap(), SOON);
    let values: Vec<_> = records.iter().map(|it| it.value_text().unwrap().to_owned()).collect();
    assert_eq!(values, (1..=EVENTS).map(|n| n.to_string()).collect::<Vec<_>>());
    // Half of what is allowed: nothing was refused first.
    let stamps = started - ALLOWED_MS / 2..=now_ms() - ALLOWED_MS / 2;
    for record in &records {
        let stamp = record.timestamp_ms.unwrap();
        assert!(stamps.contains(&stamp), "{stamp} is not in {stamps:?}");
        let original = record.header("committed-at").expect("no committed-at");
        let original = humantime::parse_rfc3339(original).unwrap();
        let original = original.duration_since(UNIX_EPOCH).unwrap().as_millis();
        assert_eq!(i64::try_from(original).unwrap(), committed);
    }
    let sql = "SELECT count(*) FROM postrider.undelivered";
    let undelivered: i64 = fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(undelivered, 0);
}
