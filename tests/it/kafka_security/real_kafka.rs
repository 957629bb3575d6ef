//! TLS, client certificates, passwords, tokens and permissions, on a Kafka that requires them.

mod permissions;
mod publish;
mod refused;
mod secrets;
mod start;
mod token_endpoint;
mod tokens;

use std::time::Duration;

use crate::harness::servers::secured_kafka;
use testkit::fixture::Fixture;
use testkit::kafka::acl::Operation;
use testkit::kafka::secured::PASSWORD;
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::poll_for;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Part of every secret of these tests: it must not appear anywhere.
const MARKER: &str = "m4rker";

/// A fixture whose relay connects to this listener; the test itself is a super user.
#[track_caller]
fn fixture(name: &str, listener: &str, properties: &[(&str, &str)]) -> Fixture {
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, name, &postgres, &secured_kafka().broker());
    fixture.set("POSTRIDER_BROKERS", listener);
    set(&mut fixture, properties);
    fixture
}

/// Properties by their variables: `sasl.password` is `…_SASL_PASSWORD`.
fn set(fixture: &mut Fixture, properties: &[(&str, &str)]) {
    for (name, value) in properties {
        let name = name.to_uppercase().replace('.', "_");
        fixture.set(&format!("POSTRIDER_KAFKA_PROPERTIES_{name}"), value);
    }
}

/// The properties of a user with a password.
fn login<'a>(mechanism: &'a str, user: &'a str, ca: &'a str) -> [(&'a str, &'a str); 5] {
    [
        ("security.protocol", "sasl_ssl"),
        ("ssl.ca.location", ca),
        ("sasl.mechanism", mechanism),
        ("sasl.username", user),
        ("sasl.password", PASSWORD),
    ]
}

fn ca() -> String {
    secured_kafka().file("ca.pem")
}

/// A topic that the user may write to.
#[track_caller]
fn create_topic_for(fixture: &mut Fixture, user: &str) -> String {
    let topic = fixture.create_topic("events", 1, &[]);
    secured_kafka().allow(user, Operation::Write, &topic);
    topic
}

/// Writes one event and returns its id.
#[track_caller]
fn write_event(fixture: &Fixture, topic: &str) -> String {
    let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '{}') RETURNING id::text";
    fixture.client().query_one(sql, &[&topic]).unwrap().get(0)
}

/// Publishes one event from end to end.
#[track_caller]
fn assert_publishes(fixture: &mut Fixture, topic: &str) {
    let id = write_event(fixture, topic);
    fixture.start_relay().wait_ready(SOON);
    assert_arrived(fixture, &[id]);
}

#[track_caller]
fn assert_arrived(fixture: &mut Fixture, ids: &[String]) {
    let records = fixture.consumer().read_n(ids.len(), SOON);
    let arrived: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(arrived, ids);
    assert_no_secret(fixture.relay());
}

/// Waits until `/readyz` reports not ready for these reasons.
#[track_caller]
fn wait_unready(relay: &mut Relay, parts: &[&str]) {
    let mut last = String::from("no answer");
    let unready = poll_for(SOON, || {
        let (status, body) = relay.http_get("/readyz").ok()?;
        last = format!("{status} {body}");
        (status == 503 && parts.iter().all(|part| body.contains(part))).then_some(())
    });
    assert!(unready.is_some(), "{parts:?} not in {last}\n{}", relay.log());
    assert!(relay.is_running(), "{}", relay.log());
}

/// No page and no log contains a secret.
#[track_caller]
fn assert_no_secret(relay: &mut Relay) {
    let mut seen = relay.log();
    if relay.is_running() {
        for path in ["/status", "/readyz", "/metrics", "/"] {
            seen.push_str(&relay.http_get(path).unwrap().1);
        }
    }
    assert!(!seen.is_empty(), "nothing was checked");
    assert!(!seen.contains(MARKER), "a secret in:\n{seen}");
}

/// How often the log contains this text.
fn count(relay: &Relay, part: &str) -> usize {
    relay.log().matches(part).count()
}
