//! What the relay publishes, read by what others have written.

use std::time::Duration;

use serde_json::json;

use crate::harness::servers::apicurio;
use testkit::fixture::Fixture;
use testkit::foreign::{CloudEvent, confluent_values, java_cloudevents, python_cloudevents};
use testkit::registry::mock::MockRegistry;
use testkit::registry::{Kind, Registry};

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A relay that publishes what these statements write, in which TOPIC is the topic.
#[track_caller]
fn publish(name: &str, settings: &[(&str, &str)], table: &str, rows: &str) -> (Fixture, String) {
    let (postgres, broker) = testkit::shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, name, &postgres.address(), &broker);
    if !table.is_empty() {
        fixture.client().batch_execute(table).unwrap();
    }
    for (name, value) in settings {
        fixture.set(name, value);
    }
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.client().batch_execute(&rows.replace("TOPIC", &topic)).unwrap();
    fixture.start_relay().wait_ready(SOON);
    (fixture, topic)
}

const EVENTS: &str = "
    insert into public.outbox (topic, payload, idempotency_key, ordering_key, type, tenant, traceparent)
        values ('TOPIC', '{\"n\": \"ö\"}', 'i-1', 'order-7', 'order.paid', 'acme',
                '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
    insert into public.outbox (topic, payload, idempotency_key, type, content_type)
        values ('TOPIC', '[1]', 'i-2', 'größe', 'application/shop+json')";

#[track_caller]
fn check(events: &[CloudEvent], mode: &str) {
    let [first, second] = events else { panic!("{events:?}") };
    assert_eq!([&first.mode, &second.mode], [mode, mode]);
    let attribute = |event: &CloudEvent, name: &str| event.attributes.get(name).cloned();
    let expect = [
        ("id", "i-1"),
        ("source", "/shop/acme"),
        ("type", "order.paid"),
        ("specversion", "1.0"),
        ("datacontenttype", "application/json"),
    ];
    for (name, value) in expect {
        assert_eq!(attribute(first, name).as_deref(), Some(value), "{name}");
    }
    assert!(attribute(first, "time").is_some_and(|time| time.starts_with("20")));
    assert_eq!(first.key.as_deref(), Some(&b"order-7"[..]));
    assert_eq!(first.extensions["partitionkey"], json!("order-7"));
    assert_eq!(first.extensions["tenant"], json!("acme"));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(first.extensions["traceparent"], json!(trace));
    assert_eq!(first.json(), json!({ "n": "ö" }));
    assert_eq!(attribute(second, "type").as_deref(), Some("größe"));
    assert_eq!(attribute(second, "source").as_deref(), Some("/shop/none"));
    assert_eq!(attribute(second, "datacontenttype").as_deref(), Some("application/shop+json"));
    assert_eq!(second.json(), json!([1]));
}

#[test]
fn cloud_events_in_both_modes() {
    for mode in ["binary", "structured"] {
        let format = format!("cloudevents-{mode}");
        let settings = [
            ("POSTRIDER_FORMAT_VALUE", format.as_str()),
            ("POSTRIDER_FORMAT_SOURCE", "/shop/{tenant|none}"),
        ];
        let (fixture, topic) = publish(&format!("ce_{mode}"), &settings, "", EVENTS);
        for reader in [python_cloudevents, java_cloudevents] {
            check(&reader(fixture.broker(), &topic, 2), mode);
        }
    }
}

/// A value in base64, and one that is text.
#[test]
fn cloud_events_of_bytes_and_of_text() {
    let table = "create table outbox (id int primary key, topic text, type text, content_type text,
        payload bytea)";
    let rows = "insert into outbox values
        (1, 'TOPIC', 'bytes', null, '\\x00ff'), (2, 'TOPIC', 'text', 'text/plain', 'plain')";
    for mode in ["binary", "structured"] {
        let format = format!("cloudevents-{mode}");
        let settings =
            [("POSTRIDER_FORMAT_VALUE", format.as_str()), ("POSTRIDER_FORMAT_SOURCE", "/shop")];
        let (fixture, topic) = publish(&format!("ce_bytes_{mode}"), &settings, table, rows);
        for reader in [python_cloudevents, java_cloudevents] {
            let events = reader(fixture.broker(), &topic, 2);
            assert_eq!(events[0].data.as_deref(), Some(&[0, 0xFF][..]), "{mode}");
            assert_eq!(events[1].data.as_deref(), Some(&b"plain"[..]), "{mode}");
            // Neither has an idempotency key.
            assert_eq!(events[1].attributes["id"], "2", "{mode}");
        }
    }
}

const AVRO: &str = r#"{"type":"record","name":"Order","fields":[
    {"name":"id","type":"long"},{"name":"note","type":"string"}]}"#;
const PROTOBUF: &str = r#"
    syntax = "proto3";
    package shop;
    message Mail { message Reply { int64 to = 1; } string text = 1; }
    message Order { int64 id = 1; }"#;

/// Values are bytes that the application has encoded.
const TABLE: &str =
    "create table outbox (id int primary key, topic text, payload bytea, schema_id int)";

/// `{"id": 42, "note": "hello"}`
const AVRO_ROW: &str = "insert into outbox values (1, 'TOPIC', '\\x540a68656c6c6f', SCHEMA)";

#[test]
fn an_id_from_a_column() {
    let registry = apicurio();
    let registered = registry.register(&testkit::name::unique("column"), Kind::Avro, AVRO);
    let rows = AVRO_ROW.replace("SCHEMA", &registered.id.to_string());
    let settings = [("POSTRIDER_FORMAT_SCHEMA_ID", "{schema_id}")];
    let (fixture, topic) = publish("schema_column", &settings, TABLE, &rows);
    let read = &confluent_values(fixture.broker(), &topic, 1, registry, Kind::Avro)[0];
    assert_eq!(read.value, json!({ "id": 42, "note": "hello" }));
    assert_eq!(read.id, Some(u64::from(registered.id)));
}

#[track_caller]
fn looked_up(
    registry: &Registry,
    name: &str,
    more: &[(&str, &str)],
    kind: Kind,
    schema: &str,
    row: &str,
) {
    let registered = registry.register(&format!("{name}-subject"), kind, schema);
    let (url, subject) = (registry.url().to_owned(), format!("{name}-subject"));
    let mut settings =
        vec![("POSTRIDER_FORMAT_REGISTRY", url.as_str()), ("POSTRIDER_FORMAT_SUBJECT", &subject)];
    settings.extend_from_slice(more);
    let (fixture, topic) = publish(name, &settings, TABLE, row);
    let read = &confluent_values(fixture.broker(), &topic, 1, registry, kind)[0];
    match kind {
        Kind::Protobuf => assert_eq!(read.value, json!({ "to": "42" })),
        _ => assert_eq!(read.value, json!({ "id": 42, "note": "hello" })),
    }
    let in_header = more.iter().any(|(_, value)| *value == "header");
    let (id, guid) = (Some(u64::from(registered.id)), registered.guid.clone());
    let expect = if in_header { (None, guid) } else { (id, None) };
    assert_eq!((read.id, read.guid.clone()), expect);
}

#[test]
fn an_id_that_the_registry_knows() {
    let row = AVRO_ROW.replace("SCHEMA", "null");
    looked_up(apicurio(), "schema_apicurio", &[], Kind::Avro, AVRO, &row);
    let mock = MockRegistry::start();
    looked_up(mock.registry(), "schema_mock", &[], Kind::Avro, AVRO, &row);
    let header = [("POSTRIDER_FORMAT_SCHEMA_IN", "header")];
    looked_up(mock.registry(), "schema_header", &header, Kind::Avro, AVRO, &row);
    // `to: 42`, the message inside the first.
    let row = "insert into outbox values (1, 'TOPIC', '\\x082a')";
    let index = [("POSTRIDER_FORMAT_MESSAGE_INDEX", "0.0")];
    looked_up(mock.registry(), "schema_index", &index, Kind::Protobuf, PROTOBUF, row);
}
