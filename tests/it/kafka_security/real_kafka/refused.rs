//! Refused connections: the relay waits, reports the cause and the fix, and loses nothing.

use super::{
    SOON, assert_arrived, assert_no_secret, ca, count, create_topic_for, fixture, login, set,
    wait_unready, write_event,
};
use crate::harness::servers::secured_kafka;
use testkit::fixture::Fixture;

/// Runs the relay with an event to publish, and checks what `/readyz` and the log report.
#[track_caller]
fn assert_waits(fixture: &mut Fixture, topic: &str, reason: &str, fix: &str) -> String {
    let id = write_event(fixture, topic);
    let relay = fixture.start_relay();
    wait_unready(relay, &["blocked-on-broker", reason, fix]);
    assert_eq!(count(relay, "waiting for Kafka"), 1, "{}", relay.log());
    assert_eq!((count(relay, fix) > 0, count(relay, reason) > 0), (true, true), "{}", relay.log());
    assert_no_secret(relay);
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0), "{}", relay.log());
    id
}

#[test]
fn a_wrong_password_is_reported_even_without_events_and_nothing_is_lost() {
    let mut fixture = fixture("wrong_password", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("SCRAM-SHA-256", "writer", &ca()));
    set(&mut fixture, &[("sasl.password", "wrong-m4rker")]);
    let topic = create_topic_for(&mut fixture, "writer");
    let relay = fixture.start_relay();
    wait_unready(relay, &["blocked-on-broker", "SASL authentication error", "sasl.password"]);
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0), "{}", relay.log());

    let fix = "set the right kafka.properties.sasl.username and sasl.password";
    let id = assert_waits(&mut fixture, &topic, "SASL authentication error", fix);
    set(&mut fixture, &login("SCRAM-SHA-256", "writer", &ca()));
    fixture.start_relay();
    assert_arrived(&mut fixture, &[id]);
}

#[test]
fn a_wrong_plain_password_is_reported() {
    let mut fixture = fixture("wrong_plain", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("PLAIN", "writer", &ca()));
    set(&mut fixture, &[("sasl.password", "wrong-m4rker")]);
    assert_waits(&mut fixture, "t", "Invalid username or password", "sasl.username");
}

#[test]
fn an_unknown_user_is_reported() {
    let mut fixture = fixture("unknown_user", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("SCRAM-SHA-512", "nobody", &ca()));
    assert_waits(&mut fixture, "t", "SASL authentication error", "sasl.username");
}

#[test]
fn a_mechanism_that_the_listener_lacks_is_reported() {
    let mut fixture = fixture("mechanism", &secured_kafka().oauth(), &[]);
    set(&mut fixture, &login("PLAIN", "writer", &ca()));
    assert_waits(&mut fixture, "t", "OAUTHBEARER", "set kafka.properties.sasl.mechanism");
}

#[test]
fn a_certificate_of_another_authority_is_reported() {
    let kafka = secured_kafka();
    let properties =
        [("security.protocol", "ssl"), ("ssl.ca.location", &kafka.file("other-ca.pem"))];
    let mut fixture = fixture("wrong_ca", &kafka.tls(), &properties);
    assert_waits(&mut fixture, "t", "certificate verify failed", "ssl.ca.location");
}

#[test]
fn a_host_that_is_not_in_the_certificate_is_reported() {
    let kafka = secured_kafka();
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", &ca())];
    let mut fixture = fixture("host_name", &kafka.tls_by_address(), &properties);
    assert_waits(&mut fixture, "t", "certificate verify failed", "advertised.listeners");
}

#[test]
fn a_missing_client_certificate_is_reported() {
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", &ca())];
    let mut fixture = fixture("no_certificate", &secured_kafka().mtls(), &properties);
    assert_waits(&mut fixture, "t", "bad certificate", "ssl.certificate.location");
}

#[test]
fn tls_to_a_plaintext_listener_is_reported() {
    let kafka = secured_kafka();
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", &ca())];
    let mut fixture = fixture("tls_to_plain", kafka.broker().brokers(), &properties);
    // librdkafka reports it in two ways, and either may come first.
    let reason = "Disconnected: SSL connection closed by peer";
    assert_waits(&mut fixture, "t", reason, "security.protocol to plaintext");
}

#[test]
fn plaintext_to_a_tls_listener_is_reported() {
    let mut fixture = fixture("plain_to_tls", &secured_kafka().tls(), &[]);
    let fix = "set kafka.properties.security.protocol to what this listener speaks";
    assert_waits(&mut fixture, "t", "Disconnected", fix);
}

#[test]
fn a_missing_password_is_reported() {
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", &ca())];
    let mut fixture = fixture("no_sasl", &secured_kafka().sasl(), &properties);
    let fix = "set kafka.properties.security.protocol to what this listener speaks";
    assert_waits(&mut fixture, "t", "Disconnected", fix);
}
