//! Ways to authenticate.

use super::{assert_publishes, ca, create_topic_for, fixture, login, set};
use crate::harness::servers::secured_kafka;
use testkit::kafka::secured::{CERTIFIED, PASSWORD};

#[test]
fn a_scram_sha_256_password_is_accepted() {
    let mut fixture = fixture("scram_256", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("SCRAM-SHA-256", "writer", &ca()));
    let topic = create_topic_for(&mut fixture, "writer");
    assert_publishes(&mut fixture, &topic);
}

#[test]
fn a_scram_sha_512_password_from_a_file_is_accepted() {
    let mut fixture = fixture("scram_512", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("SCRAM-SHA-512", "writer", &ca()));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{PASSWORD}\n")).unwrap();
    let variable = "POSTRIDER_KAFKA_PROPERTIES_SASL_PASSWORD";
    fixture.unset(variable);
    fixture.set(&format!("{variable}_FILE"), &file.path().display().to_string());
    let topic = create_topic_for(&mut fixture, "writer");
    assert_publishes(&mut fixture, &topic);
}

#[test]
fn a_plain_password_is_accepted() {
    let mut fixture = fixture("plain", &secured_kafka().sasl(), &[]);
    set(&mut fixture, &login("PLAIN", "writer", &ca()));
    let topic = create_topic_for(&mut fixture, "writer");
    assert_publishes(&mut fixture, &topic);
}

#[test]
fn tls_with_an_authority_given_as_text_is_accepted() {
    let mut fixture = fixture("tls", &secured_kafka().tls(), &[("security.protocol", "ssl")]);
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_SSL_CA_PEM_FILE", &ca());
    let topic = fixture.create_topic("events", 1, &[]);
    assert_publishes(&mut fixture, &topic);
}

#[test]
fn a_client_certificate_is_accepted() {
    let kafka = secured_kafka();
    let properties = [
        ("security.protocol", "ssl"),
        ("ssl.ca.location", &kafka.file("ca.pem")),
        ("ssl.certificate.location", &kafka.file("client.crt")),
        ("ssl.key.location", &kafka.file("client.key")),
    ];
    let mut fixture = fixture("mtls", &kafka.mtls(), &properties);
    let topic = create_topic_for(&mut fixture, &format!("CN={CERTIFIED}"));
    assert_publishes(&mut fixture, &topic);
}

#[test]
fn a_client_certificate_whose_key_is_text_from_a_file_is_accepted() {
    let kafka = secured_kafka();
    let properties = [
        ("security.protocol", "ssl"),
        ("ssl.ca.location", &kafka.file("ca.pem")),
        ("ssl.certificate.pem.file", &kafka.file("client.crt")),
        ("ssl.key.pem.file", &kafka.file("client.key")),
    ];
    let mut fixture = fixture("mtls_text", &kafka.mtls(), &properties);
    let topic = create_topic_for(&mut fixture, &format!("CN={CERTIFIED}"));
    assert_publishes(&mut fixture, &topic);
}
