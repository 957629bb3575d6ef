//! A registry that knows all subjects.

use super::super::{BINARY, GUID, QUIET, SOON, configure, framed, subject, values, wait_blocked};
use super::super::{wait_parked, with_registry, write};
use crate::harness::outbox::without_slot;
use crate::harness::servers::apicurio;
use crate::startup::secrets::assert_silent_about;
use testkit::certificates::{Authority, Wanted};
use testkit::fixture::Fixture;
use testkit::registry::Kind;
use testkit::registry_stub::RegistryStub;

const SECRET: &str = "m4rker-of-the-registry";

#[test]
fn the_id_is_before_the_value_and_is_asked_for_once() {
    let (stub, mut fixture) = with_registry("registry_value");
    let topic = fixture.create_topic("t", 1, &[]);
    stub.register(&subject(&topic), 258, None);
    fixture.start_relay().wait_ready(SOON);
    for number in 0..20 {
        write(&fixture, &topic, Some("k"), &format!("{{ \"n\": {number} }}"));
    }
    let sql = "INSERT INTO outbox (topic, ordering_key) VALUES ($1, 'k')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let mut expect: Vec<_> =
        (0..20).map(|number| framed(258, &format!("{{ \"n\": {number} }}"))).collect();
    // There is nothing that a schema could describe.
    expect.push(None);
    assert_eq!(values(&fixture.consumer().read_n(21, SOON)), expect);
    assert_eq!(stub.asked(&subject(&topic)), 1);
}

#[test]
fn a_guid_is_in_a_header() {
    let (stub, mut fixture) = with_registry("registry_header");
    fixture.set("POSTRIDER_FORMAT_SCHEMA_IN", "header");
    fixture.unset("POSTRIDER_FORMAT_SCHEMA_IDS");
    fixture.set("POSTRIDER_FORMAT_SUBJECT", "com.example.{type}");
    let topic = fixture.create_topic("t", 1, &[]);
    stub.register("com.example.order/created", 7, Some(GUID));
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO outbox (topic, type, payload) VALUES ($1, 'order/created', '{}')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let record = &fixture.consumer().read_n(1, SOON)[0];
    assert_eq!(record.value_text(), Some("{}"));
    let (name, value) = record.headers.last().unwrap();
    let expect: Vec<u8> = std::iter::once(1).chain(0..16).collect();
    assert_eq!((name.as_str(), value.as_ref()), ("__value_schema_id", Some(&expect)));
}

#[test]
fn a_registry_that_others_have_written_is_understood() {
    let registry = apicurio();
    let (_, mut fixture) = with_registry("registry_apicurio");
    fixture.set("POSTRIDER_FORMAT_REGISTRY", &registry.url());
    let [known, unknown] = ["known", "unknown"].map(|name| fixture.create_topic(name, 1, &[]));
    let avro = |name: &str| format!(r#"{{"type":"enum","name":"{name}","symbols":["A"]}}"#);
    let id = registry.register(&subject(&known), Kind::Avro, &avro("Known")).id;
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &known, None, "{}");
    let waits = write(&fixture, &unknown, None, "[]");
    assert_eq!(wait_parked(&fixture, &waits, "pending").0, "schema-missing");
    let other = registry.register(&subject(&unknown), Kind::Avro, &avro("Unknown")).id;
    wait_parked(&fixture, &waits, "delivered");
    let mut values = values(&fixture.consumer().read_n(2, SOON));
    values.sort();
    let mut expect = [framed(id, "{}"), framed(other, "[]")];
    expect.sort();
    assert_eq!(values, expect);
}

#[test]
fn rows_of_a_snapshot_have_their_schema_too() {
    let stub = RegistryStub::start();
    let mut fixture = without_slot("registry_snapshot");
    configure(&mut fixture, &stub);
    let topics = ["a", "b"].map(|name| fixture.create_topic(name, 1, &[]));
    for (topic, id) in topics.iter().zip(1..) {
        stub.register(&subject(topic), id, None);
        for _ in 0..100 {
            write(&fixture, topic, Some("k"), "{}");
        }
    }
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(200, SOON);
    for record in &records {
        let id = if record.topic == topics[0] { 1 } else { 2 };
        assert_eq!(record.value, framed(id, "{}"));
    }
    write(&fixture, &topics[1], None, "[1]");
    let mut last = fixture.consumer().read_n(201, SOON);
    last.extend(fixture.consumer().drain_quiet(QUIET).into_iter().skip(201));
    assert_eq!(last.len(), 201);
    assert!(last.iter().any(|record| record.value == framed(2, "[1]")));
}

#[test]
fn an_encrypted_registry_with_a_password_which_is_shown_nowhere() {
    let authority = Authority::new("authority");
    let wanted = Wanted { name: "registry", hosts: &["localhost"], days_left: 20 };
    let stub = RegistryStub::start_tls(&authority.issue(wanted));
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let mut fixture = Fixture::new(BINARY, "registry_tls");
    fixture.set("POSTRIDER_FORMAT_REGISTRY", &stub.url_as("me", SECRET));
    fixture.set("POSTRIDER_FORMAT_REGISTRY_CA", &ca.display().to_string());
    fixture.set("POSTRIDER_LOG", "postrider=trace,trace");
    let topic = fixture.create_topic("t", 1, &[]);
    stub.register(&subject(&topic), 7, None);
    stub.require("me", "another");
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, None, "{}");
    let expect = ["status 401", "put the right user and password into format.registry"];
    wait_blocked(&mut fixture, &expect);
    assert_silent_about(SECRET, fixture.relay());
    stub.require("me", SECRET);
    assert_eq!(values(&fixture.consumer().read_n(1, SOON)), [framed(7, "{}")]);
    fixture.relay().wait_ready(SOON);
    let encoded = openssl::base64::encode_block(format!("me:{SECRET}").as_bytes());
    for secret in [SECRET, &encoded] {
        assert_silent_about(secret, fixture.relay());
    }
}
