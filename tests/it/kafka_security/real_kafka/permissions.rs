//! What the authorizer allows.

use super::{
    SOON, assert_arrived, assert_no_secret, ca, count, create_topic_for, fixture, login, set,
    wait_unready, write_event,
};
use crate::harness::halt::{last_two_lines, wait_halt};
use crate::harness::servers::secured_kafka;
use testkit::fixture::Fixture;
use testkit::kafka::acl::Operation;
use testkit::relay::Relay;
use testkit::wait::wait_until;

fn fixture_of(name: &str, user: &str) -> Fixture {
    let mut fixture = fixture(name, &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("SCRAM-SHA-256", user, &ca()));
    fixture
}

#[test]
fn a_denied_topic_halts_the_relay_until_it_is_allowed() {
    let mut fixture = fixture_of("denied", "writer").halting();
    let allowed = create_topic_for(&mut fixture, "writer");
    let denied = fixture.create_topic("denied", 1, &[]);
    let first = write_event(&fixture, &allowed);
    let second = write_event(&fixture, &denied);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    let [message, fix] = last_two_lines(&log);
    let event = format!("event {second} of table public.outbox for topic {denied:?}");
    for part in [event.as_str(), "TopicAuthorizationFailed"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(fix.contains("allow writing to it"), "{fix:?}");
    assert_no_secret(fixture.relay());

    secured_kafka().allow("writer", Operation::Write, &denied);
    fixture.start_relay();
    // The first event may be repeated: perhaps its confirmation was not sent. The records of two
    // topics come in any order.
    fixture.consumer().read_until(SOON, |records| {
        [&first, &second].into_iter().all(|id| records.iter().any(|record| record.id() == id))
    });
}

#[test]
fn a_user_without_any_permission_waits_until_it_is_granted() {
    let mut fixture = fixture_of("nowhere", "newcomer");
    let topic = fixture.create_topic("events", 1, &[]);
    let fix = "allow postrider's principal to WRITE to its topics";
    let relay = fixture.start_relay();
    // Even without an event.
    wait_unready(relay, &["Cluster authorization failed", fix]);
    let id = write_event(&fixture, &topic);
    let relay = fixture.relay();
    // It keeps trying for several sessions, and logs that once a minute.
    wait_until("more sessions", SOON, || restarts(relay) > 4);
    wait_unready(relay, &["Cluster authorization failed", fix]);
    assert_eq!(count(relay, "waiting for Kafka"), 1, "{}", relay.log());
    assert!(relay.log().lines().count() < 12, "too many lines:\n{}", relay.log());

    secured_kafka().allow("newcomer", Operation::Write, &topic);
    assert_arrived(&mut fixture, &[id]);
    let relay = fixture.relay();
    relay.wait_ready(SOON);
    assert_eq!(count(relay, "Kafka accepts events again"), 1, "{}", relay.log());
}

fn restarts(relay: &Relay) -> u64 {
    let (_, metrics) = relay.http_get("/metrics").unwrap();
    let lines = metrics.lines().filter(|line| line.starts_with("postrider_restarts_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_user_with_permission_to_describe_only_waits_until_writing_is_granted() {
    let mut fixture = fixture_of("looking", "describer");
    let topic = fixture.create_topic("events", 1, &[]);
    secured_kafka().allow("describer", Operation::Describe, &topic);
    let id = write_event(&fixture, &topic);
    let relay = fixture.start_relay();
    wait_unready(relay, &["Cluster authorization failed", "to WRITE to its topics"]);
    secured_kafka().allow("describer", Operation::Write, &topic);
    assert_arrived(&mut fixture, &[id]);
}

#[test]
fn the_relay_works_without_permission_to_read_the_limits_of_topics() {
    let mut fixture = fixture_of("no_limits", "writer");
    let first = create_topic_for(&mut fixture, "writer");
    let second = fixture.create_topic("second", 1, &[]);
    secured_kafka().allow("writer", Operation::Write, &second);
    let ids = [write_event(&fixture, &first), write_event(&fixture, &second)];
    fixture.start_relay();
    let mut arrived: Vec<String> = Vec::new();
    for record in fixture.consumer().read_n(2, SOON) {
        arrived.push(record.id().to_owned());
    }
    arrived.sort();
    assert_eq!(arrived, ids);
    let relay = fixture.relay();
    assert_eq!(count(relay, "can't read this topic's limits"), 1, "{}", relay.log());
    assert_eq!(count(relay, " WARN "), 1, "{}", relay.log());
}

#[test]
fn the_relay_logs_no_warning_with_permission_to_read_the_limits_of_topics() {
    let mut fixture = fixture_of("limits", "writer");
    let topic = create_topic_for(&mut fixture, "writer");
    secured_kafka().allow("writer", Operation::DescribeConfigs, &topic);
    let id = write_event(&fixture, &topic);
    fixture.start_relay();
    assert_arrived(&mut fixture, &[id]);
    let relay = fixture.relay();
    assert_eq!(count(relay, " WARN "), 0, "{}", relay.log());
}
