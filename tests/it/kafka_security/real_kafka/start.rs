//! What is checked at startup: missing files, and disabled checks.

use super::{SOON, assert_publishes, ca, count, fixture, login, set, write_event};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::servers::secured_kafka;

#[test]
fn a_missing_authority_file_is_reported() {
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", "/no/such/ca.pem")];
    let mut fixture = fixture("no_ca", &secured_kafka().tls(), &properties);
    fixture.set("POSTRIDER_SLOT", "Bad-Slot");
    let relay = fixture.start_relay();
    assert_eq!(relay.wait_exit(SOON).code(), Some(2), "{}", relay.log());
    let expect = "kafka.properties.ssl.ca.location: can't read /no/such/ca.pem";
    assert_eq!(count(relay, expect), 1, "{}", relay.log());
    assert_eq!(count(relay, "postgres.slot = \"Bad-Slot\""), 1, "{}", relay.log());
}

#[test]
fn an_authority_file_without_a_certificate_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no certificate").unwrap();
    let path = file.path().display().to_string();
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", path.as_str())];
    let mut fixture = fixture("junk_ca", &secured_kafka().tls(), &properties);
    write_event(&fixture, "t");
    assert_halts_at_start(&mut fixture, "ssl.ca.location", "correct kafka.properties");
}

#[test]
fn an_invalid_key_is_reported() {
    let kafka = secured_kafka();
    let properties = [
        ("security.protocol", "ssl"),
        ("ssl.ca.location", &ca()),
        ("ssl.certificate.location", &kafka.file("client.crt")),
        ("ssl.key.pem", "no key but m4rker"),
    ];
    let mut fixture = fixture("no_key", &kafka.mtls(), &properties);
    write_event(&fixture, "t");
    let log = assert_halts_at_start(&mut fixture, "ssl.key.pem", "correct kafka.properties");
    assert!(!log.contains("m4rker"), "{log}");
}

#[test]
fn a_password_without_a_mechanism_is_a_configuration_error() {
    let mut fixture = fixture("half", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("SCRAM-SHA-256", "writer", &ca()));
    fixture.unset("POSTRIDER_KAFKA_PROPERTIES_SASL_MECHANISM");
    let relay = fixture.start_relay();
    assert_eq!(relay.wait_exit(SOON).code(), Some(2), "{}", relay.log());
    assert_eq!(count(relay, "sasl.mechanism is not set; choose PLAIN"), 1, "{}", relay.log());
    super::assert_no_secret(relay);
}

#[test]
fn an_unverified_certificate_is_warned_about_once() {
    let kafka = secured_kafka();
    let properties = [
        ("security.protocol", "ssl"),
        ("ssl.ca.location", &kafka.file("other-ca.pem")),
        ("enable.ssl.certificate.verification", "false"),
    ];
    let mut fixture = fixture("unverified", &kafka.tls(), &properties);
    let topic = fixture.create_topic("events", 1, &[]);
    assert_publishes(&mut fixture, &topic);
    let warned = count(fixture.relay(), "anybody in between can impersonate the brokers");
    assert_eq!(warned, 1, "{}", fixture.relay().log());
}

#[test]
fn an_unchecked_host_name_is_warned_about_once() {
    let kafka = secured_kafka();
    let properties = [
        ("security.protocol", "ssl"),
        ("ssl.ca.location", &ca()),
        ("ssl.endpoint.identification.algorithm", "none"),
    ];
    let mut fixture = fixture("any_host", &kafka.tls_by_address(), &properties);
    let topic = fixture.create_topic("events", 1, &[]);
    assert_publishes(&mut fixture, &topic);
    let warned = count(fixture.relay(), "any holder of a certificate of the same CA");
    assert_eq!(warned, 1, "{}", fixture.relay().log());
}
