//! Records that a broker refuses for other reasons than their size.

use super::super::{BINARY, SOON, wait_statuses, with_fast_poller};
use crate::harness::metrics::metric_sum;
use crate::harness::slot::wait_confirmed;
use crate::harness::topics::{assert_was_denied, deny_describe_configs, kafka_with_rules};
use testkit::fixture::Fixture;
use testkit::shared;

const EVENTS: i64 = 100;

#[track_caller]
fn fixture(name: &str) -> Fixture {
    let address = shared::postgres().address();
    with_fast_poller(Fixture::on(BINARY, name, &address, &kafka_with_rules().broker()))
}

/// Runs the relay until everything is published or dead; returns the published values.
#[track_caller]
fn publish(fixture: &mut Fixture, good: usize, dead: i64, reason: &str) -> Vec<String> {
    fixture.start_relay();
    let mut values = Vec::new();
    let consumer = fixture.consumer();
    while values.len() < good {
        let record = consumer.next(SOON).expect("no more records arrived");
        let value = record.value_text().unwrap().to_owned();
        // A refusal within a batch restarts the stream, once.
        if !values.contains(&value) {
            values.push(value);
        }
    }
    wait_confirmed(fixture);
    wait_statuses(fixture, &[("dead", dead)]);
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE reason = $1 AND form = 'whole'";
    let found: i64 = fixture.client().query_one(sql, &[&reason]).unwrap().get(0);
    assert_eq!(found, dead);
    let restarts = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert!(restarts <= 1.0, "the relay has restarted {restarts} times");
    values
}

/// A compacted topic requires keys (INVALID_RECORD). An outbox may have no column for them.
#[test]
fn records_without_a_key_for_a_compacted_topic_are_dead() {
    let mut fixture = fixture("keyless");
    let sql = "CREATE TABLE keyless (topic text, payload json, ordering_key text)";
    fixture.client().batch_execute(sql).unwrap();
    fixture.set("POSTRIDER_TABLES", "keyless").migrate();
    let topic = fixture.create_topic("compacted", 1, &[("cleanup.policy", "compact")]);
    let sql = "INSERT INTO keyless SELECT $1, to_json(n), CASE WHEN n % 10 > 0 THEN 'k' || n END
        FROM generate_series(1, $2::bigint) n";
    fixture.client().execute(sql, &[&topic, &EVENTS]).unwrap();
    let values = publish(&mut fixture, 90, 10, "refused");
    let expect: Vec<String> = (1..=EVENTS).filter(|n| n % 10 > 0).map(|n| n.to_string()).collect();
    assert_eq!(values, expect);
}

/// INVALID_TIMESTAMP, where the relay is not allowed to know how old a record may be.
#[test]
fn records_older_than_their_topic_allows_are_dead() {
    let mut fixture = fixture("too_old");
    // By the time it is sent, even the current time is too old.
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "50");
    let good = fixture.create_topic("good", 1, &[]);
    let strict = fixture.topic("strict");
    fixture.broker().create_topic(&strict, 1, &[("message.timestamp.before.max.ms", "1")]);
    deny_describe_configs(fixture.broker(), &strict);
    let sql = "INSERT INTO outbox (topic, payload)
        SELECT CASE WHEN n % 10 > 0 THEN $1 ELSE $2 END, to_json(n)
          FROM generate_series(1, $3::bigint) n";
    fixture.client().execute(sql, &[&good, &strict, &EVENTS]).unwrap();
    publish(&mut fixture, 90, 10, "timestamp-refused");
    assert_was_denied(&mut fixture);
    fixture.broker().delete_topics(&[&strict]);
}
