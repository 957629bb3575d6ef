//! Confluent's client reads values that are framed for a registry.
//!
//! <https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format>

use serde_json::json;

use super::record::{Record, publish};
use crate::harness::servers::apicurio;
use testkit::foreign::{FramedValue, confluent_values};
use testkit::name::unique;
use testkit::registry::mock::MockRegistry;
use testkit::registry::{Kind, Login, Registered, Registry};

const AVRO: &str = r#"{"type":"record","name":"Order","fields":[
    {"name":"id","type":"long"},{"name":"note","type":"string"}]}"#;
/// `{"id": 42, "note": "hello"}`
const AVRO_VALUE: &[u8] = b"\x54\x0ahello";

const JSON: &str = r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#;
const JSON_VALUE: &[u8] = br#"{"id": 42}"#;

const PROTOBUF: &str = r#"
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    message Order {
        int64 id = 1;
        google.protobuf.Timestamp placed_at = 2;
    }
    message Mail {
        string text = 1;
        message Address { string street = 1; }
        message Reply { int64 to = 1; }
    }"#;
/// `id: 42`, `placed_at: 1 second after the epoch`
const ORDER: &[u8] = b"\x08\x2a\x12\x02\x08\x01";
/// `to: 42`
const REPLY: &[u8] = b"\x08\x2a";
/// The path to a message: a count and numbers as zigzag varints. That to the first message is short.
const TO_ORDER: &[u8] = b"\x00";
const TO_REPLY: &[u8] = b"\x04\x02\x02";

/// The value after the magic byte 0 and the id.
fn prefixed(registered: &Registered, value: &[u8]) -> Vec<u8> {
    [&[0], registered.id.to_be_bytes().as_slice(), value].concat()
}

/// The header `__value_schema_id`: the magic byte 1 and the GUID.
fn header(registered: &Registered) -> Vec<u8> {
    let hex = registered.guid.as_ref().unwrap().replace('-', "");
    let bytes = (0..16).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap());
    std::iter::once(1).chain(bytes).collect()
}

/// Publishes one value with these headers, and reads it.
#[track_caller]
fn read(registry: &Registry, kind: Kind, headers: &[(&str, &[u8])], value: &[u8]) -> FramedValue {
    let (broker, topic) = publish(&[Record { headers, value: Some(value), key: Some(b"k") }]);
    let read = confluent_values(&broker, &topic, 1, registry, kind).remove(0);
    assert_eq!(read.key.as_deref(), Some(b"k".as_slice()));
    read
}

#[track_caller]
fn assert_prefixed(read: &FramedValue, registered: &Registered) {
    assert_eq!((read.id, read.guid.as_ref()), (Some(u64::from(registered.id)), None));
}

#[track_caller]
fn assert_in_header(read: &FramedValue, registered: &Registered) {
    assert_eq!((read.id, read.guid.as_ref()), (None, registered.guid.as_ref()));
}

#[test]
fn an_id_before_the_value() {
    let mock = MockRegistry::start();
    for registry in [mock.registry(), apicurio()] {
        let avro = registry.register(&unique("framed"), Kind::Avro, AVRO);
        let value = read(registry, Kind::Avro, &[], &prefixed(&avro, AVRO_VALUE));
        assert_eq!(value.value, json!({ "id": 42, "note": "hello" }));
        assert_prefixed(&value, &avro);
        let json = registry.register(&unique("framed"), Kind::Json, JSON);
        let value = read(registry, Kind::Json, &[], &prefixed(&json, JSON_VALUE));
        assert_eq!(value.value, json!({ "id": 42 }));
        assert_prefixed(&value, &json);
    }
}

#[test]
fn an_id_and_a_path_before_a_protobuf_message() {
    let mock = MockRegistry::start();
    let registered = mock.registry().register(&unique("framed"), Kind::Protobuf, PROTOBUF);
    let read = |path: &[u8], value: &[u8]| {
        let value = prefixed(&registered, &[path, value].concat());
        read(mock.registry(), Kind::Protobuf, &[], &value)
    };
    let order = read(TO_ORDER, ORDER);
    assert_eq!(order.value, json!({ "id": "42", "placed_at": "1970-01-01T00:00:01Z" }));
    assert_eq!(order.message.as_deref(), Some("shop.Order"));
    assert_eq!(order.message_indexes, Some(vec![0]));
    assert_prefixed(&order, &registered);
    let reply = read(TO_REPLY, REPLY);
    assert_eq!(reply.value, json!({ "to": "42" }));
    assert_eq!(reply.message.as_deref(), Some("shop.Mail.Reply"));
    assert_eq!(reply.message_indexes, Some(vec![1, 1]));
}

#[test]
fn a_guid_in_a_header() {
    let mock = MockRegistry::start();
    let registry = mock.registry();
    for (kind, schema, value, expected) in [
        (Kind::Avro, AVRO, AVRO_VALUE, json!({ "id": 42, "note": "hello" })),
        (Kind::Json, JSON, JSON_VALUE, json!({ "id": 42 })),
    ] {
        let registered = registry.register(&unique("framed"), kind, schema);
        let header = header(&registered);
        let found = read(registry, kind, &[("__value_schema_id", &header)], value);
        assert_eq!(found.value, expected);
        assert_in_header(&found, &registered);
    }
}

/// An error of Confluent's client: it expects room for an id although there is none.
#[test]
#[should_panic(expected = "Expecting data framing of length 6 bytes")]
fn a_short_value_of_avro_is_refused_although_the_guid_is_in_a_header() {
    let mock = MockRegistry::start();
    let registered = mock.registry().register(&unique("framed"), Kind::Avro, "\"long\"");
    let header = header(&registered);
    read(mock.registry(), Kind::Avro, &[("__value_schema_id", &header)], b"\x54");
}

/// The path follows the GUID, so that the value is nothing but the message.
#[test]
fn a_guid_and_a_path_in_a_header() {
    let mock = MockRegistry::start();
    let registered = mock.registry().register(&unique("framed"), Kind::Protobuf, PROTOBUF);
    let header = [&header(&registered), TO_REPLY].concat();
    let headers = [("__value_schema_id", header.as_slice())];
    let reply = read(mock.registry(), Kind::Protobuf, &headers, REPLY);
    assert_eq!(reply.value, json!({ "to": "42" }));
    assert_eq!(reply.message.as_deref(), Some("shop.Mail.Reply"));
    assert_in_header(&reply, &registered);
}

#[test]
fn several_records_a_tombstone_among_them() {
    let mock = MockRegistry::start();
    let json = mock.registry().register(&unique("framed"), Kind::Json, JSON);
    let value = prefixed(&json, JSON_VALUE);
    let full = || Record { value: Some(&value), ..Record::default() };
    let (broker, topic) = publish(&[full(), Record::default(), full()]);
    let values = confluent_values(&broker, &topic, 3, mock.registry(), Kind::Json);
    let values: Vec<_> = values.into_iter().map(|value| (value.offset, value.value)).collect();
    let order = json!({ "id": 42 });
    assert_eq!(values, [(0, order.clone()), (1, json!(null)), (2, order)]);
}

#[test]
fn a_registry_with_a_login() {
    let login = Login::Basic { user: "reader".to_owned(), password: "secret".to_owned() };
    let mock = MockRegistry::start_for(login);
    let json = mock.registry().register(&unique("framed"), Kind::Json, JSON);
    let value = read(mock.registry(), Kind::Json, &[], &prefixed(&json, JSON_VALUE));
    assert_eq!(value.value, json!({ "id": 42 }));
}

#[test]
#[should_panic(expected = "Schema 99 not found")]
fn an_unknown_id_is_refused() {
    let mock = MockRegistry::start();
    let unknown = Registered { id: 99, guid: None };
    read(mock.registry(), Kind::Avro, &[], &prefixed(&unknown, AVRO_VALUE));
}

#[test]
#[should_panic(expected = "'42' is not of type 'integer'")]
fn a_value_that_is_not_of_its_schema_is_refused() {
    let mock = MockRegistry::start();
    let json = mock.registry().register(&unique("framed"), Kind::Json, JSON);
    read(mock.registry(), Kind::Json, &[], &prefixed(&json, br#"{"id": "42"}"#));
}

#[test]
#[should_panic(expected = "Invalid magic byte")]
fn a_value_without_a_frame_is_refused() {
    let mock = MockRegistry::start();
    read(mock.registry(), Kind::Json, &[], JSON_VALUE);
}
