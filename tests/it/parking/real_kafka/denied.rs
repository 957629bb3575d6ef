//! Topics without write permission, until it is granted.

use std::time::{Duration, Instant};

use super::super::{BINARY, SOON, is_parked, statuses, wait_statuses, with_fast_poller, write};
use crate::harness::metrics::metric_sum;
use crate::harness::servers::secured_kafka;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::kafka::acl::Operation;
use testkit::kafka::secured::PASSWORD;
use testkit::shared;
use testkit::wait::wait_until;

pub(super) const USER: &str = "writer";
/// How long a denied topic may hold up the others, once.
const DELAY_MAX: Duration = Duration::from_secs(5);
const KEYS: usize = 4;
/// How many topics are denied at once, and how often the stream may restart for them.
const MANY: i64 = 30;
const RESTARTS_MAX: f64 = 3.0;

/// A relay that connects as a user with only the permissions it is given.
#[track_caller]
pub(super) fn fixture(name: &str) -> Fixture {
    let (postgres, kafka) = (shared::postgres().address(), secured_kafka());
    let mut fixture = with_fast_poller(Fixture::on(BINARY, name, &postgres, &kafka.broker()));
    let ca = kafka.file("ca.pem");
    let properties = [
        ("SECURITY_PROTOCOL", "sasl_ssl"),
        ("SSL_CA_LOCATION", &ca),
        ("SASL_MECHANISM", "SCRAM-SHA-256"),
        ("SASL_USERNAME", USER),
        ("SASL_PASSWORD", PASSWORD),
    ];
    for (name, value) in properties {
        fixture.set(&format!("POSTRIDER_KAFKA_PROPERTIES_{name}"), value);
    }
    fixture.set("POSTRIDER_BROKERS", &kafka.sasl());
    fixture
}

/// Writes to the denied topic and to the allowed one, and measures how long the second takes.
/// Returns the keys and ids of the first.
#[track_caller]
fn write_rounds(fixture: &Fixture, denied: &str, allowed: &str) -> Vec<(String, String)> {
    let consumer = Consumer::new(fixture.broker(), &[allowed]);
    let mut parked = Vec::new();
    for round in 0..5 {
        for number in 0..12 {
            let key = format!("k{}", number % KEYS);
            parked.push((key.clone(), write(fixture, denied, Some(&key), "{}")));
        }
        let written = Instant::now();
        let id = write(fixture, allowed, None, "{}");
        // It may be published twice: a refusal in the fast lane restarts the stream.
        consumer.read_until(SOON, |records| records.iter().any(|record| record.id() == id));
        let delay = written.elapsed();
        assert!(delay < DELAY_MAX, "delayed for {delay:?}");
        assert!(round == 0 || delay < Duration::from_secs(2), "delayed again, for {delay:?}");
    }
    parked
}

/// One event of each key is refused repeatedly; the events that wait for it lose no attempts.
#[track_caller]
fn assert_only_the_first_are_tried(fixture: &Fixture) {
    let sql = "SELECT count(*) FROM postrider.undelivered
        WHERE reason = 'topic-denied' AND attempts >= 3";
    wait_until("the first of each key to be tried", SOON, || {
        fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) >= KEYS as i64
    });
    // Events claimed by the poller are counted until it releases them.
    let sql = "SELECT count(*) FILTER (WHERE place > 1 AND (attempts > 0 OR NOT waits)),
            count(*) FILTER (WHERE place = 1 AND (waits OR reason <> 'topic-denied'))
        FROM (SELECT attempts, reason, status, next_attempt_at = 'infinity' AS waits,
                row_number() OVER (PARTITION BY ordering_key ORDER BY commit_lsn) AS place
              FROM postrider.undelivered) AS u
        WHERE status = 'pending'";
    let row = fixture.client().query_one(sql, &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 0, "a waiting event was tried");
    assert_eq!(row.get::<_, i64>(1), 0, "the first waits for no other, and was refused");
}

#[track_caller]
fn check(name: &str, may_look: bool) {
    let mut fixture = fixture(name);
    let allowed = fixture.create_topic("allowed", 1, &[]);
    let denied = fixture.create_topic("denied", 3, &[]);
    secured_kafka().allow(USER, Operation::Write, &allowed);
    if may_look {
        secured_kafka().allow(USER, Operation::Describe, &denied);
    }
    fixture.start_relay().wait_ready(SOON);
    let parked = write_rounds(&fixture, &denied, &allowed);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 60)]);
    assert_only_the_first_are_tried(&fixture);
    let before = (fixture.relay().pid(), metric_sum(fixture.relay(), "postrider_restarts_total"));

    secured_kafka().allow(USER, Operation::Write, &denied);
    wait_statuses(&fixture, &[("delivered", 60)]);
    let mut expected = Expected::default();
    for (key, id) in &parked {
        expected.push(&denied, key, id);
    }
    wait_until("new events to be published directly", SOON, || {
        let written: Vec<String> = (0..KEYS)
            .map(|number| {
                let key = format!("k{number}");
                let id = write(&fixture, &denied, Some(&key), "{}");
                expected.push(&denied, &key, &id);
                id
            })
            .collect();
        wait_confirmed(&fixture);
        !written.iter().any(|id| is_parked(&fixture, id))
    });
    let consumer = Consumer::new(fixture.broker(), &[&denied]);
    let records = consumer.read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    let after = (fixture.relay().pid(), metric_sum(fixture.relay(), "postrider_restarts_total"));
    assert_eq!(before, after, "the relay has restarted");
}

#[test]
fn a_topic_that_cannot_be_described_gets_its_events_once_allowed() {
    check("hidden_topic", false);
}

#[test]
fn a_topic_that_cannot_be_written_to_gets_its_events_once_allowed() {
    check("denied_topic", true);
}

/// The first record of each of them is refused; each refusal would restart the stream.
#[test]
fn many_denied_topics_cost_only_a_few_restarts() {
    let mut fixture = fixture("many_denied");
    let allowed = fixture.create_topic("allowed", 1, &[]);
    secured_kafka().allow(USER, Operation::Write, &allowed);
    for number in 0..MANY {
        let denied = fixture.create_topic(&format!("denied{number}"), 1, &[]);
        secured_kafka().allow(USER, Operation::Describe, &denied);
        write(&fixture, &denied, Some("k"), "{}");
    }
    let id = write(&fixture, &allowed, Some("k"), "{}");
    fixture.start_relay();
    let consumer = Consumer::new(fixture.broker(), &[&allowed]);
    consumer.read_until(SOON, |records| records.iter().any(|record| record.id() == id));
    wait_confirmed(&fixture);
    assert_eq!(statuses(&fixture).values().sum::<i64>(), MANY);
    let restarts = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert!(restarts <= RESTARTS_MAX, "{restarts} restarts");
}
