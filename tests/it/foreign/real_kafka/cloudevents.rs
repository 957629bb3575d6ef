//! The SDKs of the CloudEvents project read both modes of its binding for Kafka.
//!
//! <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md>

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::record::{Record, publish};
use testkit::broker::Broker;
use testkit::foreign::{CloudEvent, java_cloudevents, python_cloudevents};

const HEADERS: &[(&str, &[u8])] = &[
    ("ce_specversion", b"1.0"),
    ("ce_id", b"7"),
    ("ce_type", b"order.placed"),
    ("ce_source", b"/shop"),
    ("ce_subject", "Bestellung für Zoë".as_bytes()),
    ("ce_time", b"2026-03-01T12:30:00.123456+02:00"),
    ("ce_dataschema", b"https://example.com/order"),
    ("ce_tenant", b"eu-1"),
];
const STRUCTURED: (&str, &[u8]) = ("content-type", b"application/cloudevents+json; charset=UTF-8");

/// The attributes of `HEADERS`, as an SDK has to understand them.
fn attributes(content_type: Option<&str>) -> BTreeMap<String, String> {
    let mut attributes = vec![
        ("specversion", "1.0"),
        ("id", "7"),
        ("type", "order.placed"),
        ("source", "/shop"),
        ("subject", "Bestellung für Zoë"),
        ("time", "2026-03-01T10:30:00.123456Z"),
        ("dataschema", "https://example.com/order"),
    ];
    attributes.extend(content_type.map(|it| ("datacontenttype", it)));
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Its extension.
fn tenant() -> BTreeMap<String, Value> {
    [("tenant".to_owned(), json!("eu-1"))].into()
}

/// The same event in structured mode, with these members in addition.
fn structured(members: Value) -> Vec<u8> {
    let mut event = json!({
        "specversion": "1.0",
        "id": "7",
        "type": "order.placed",
        "source": "/shop",
        "subject": "Bestellung für Zoë",
        "time": "2026-03-01T12:30:00.123456+02:00",
        "dataschema": "https://example.com/order",
        "tenant": "eu-1",
    });
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event.to_string().into_bytes()
}

type Reader = fn(&Broker, &str, usize) -> Vec<CloudEvent>;
const READERS: [Reader; 2] = [python_cloudevents, java_cloudevents];

#[test]
fn binary_mode() {
    let with = |content_type: &'static [u8]| [HEADERS, &[("content-type", content_type)]].concat();
    let (of_json, of_bytes) = (with(b"application/json"), with(b"application/octet-stream"));
    let (broker, topic) = publish(&[
        Record { headers: &of_json, value: Some(b"{\"n\":[1,null]}"), ..Record::default() },
        Record { headers: &of_bytes, value: Some(b"\x00\xff"), ..Record::default() },
    ]);
    for reader in READERS {
        let events = reader(&broker, &topic, 2);
        assert!(events.iter().all(|event| event.mode == "binary"));
        assert!(events.iter().all(|event| event.extensions == tenant()));
        assert_eq!(events[0].attributes, attributes(Some("application/json")));
        assert_eq!(events[0].json(), json!({ "n": [1, null] }));
        assert_eq!(events[1].attributes, attributes(Some("application/octet-stream")));
        assert_eq!(events[1].data.as_deref(), Some(b"\x00\xff".as_slice()));
    }
}

/// An empty value is no data. A record without a value is the same event for Python, and none for
/// Java.
#[test]
fn binary_mode_without_data() {
    let (broker, topic) = publish(&[
        Record { headers: HEADERS, value: Some(b""), ..Record::default() },
        Record { headers: HEADERS, ..Record::default() },
    ]);
    let (python, java) =
        (python_cloudevents(&broker, &topic, 2), java_cloudevents(&broker, &topic, 2));
    for event in [&python[0], &python[1], &java[0]] {
        assert_eq!((event.mode.as_str(), &event.data), ("binary", &None));
        assert_eq!(event.attributes, attributes(None));
        assert_eq!(event.extensions, tenant());
    }
    assert_eq!((java[1].mode.as_str(), &java[1].data), ("none", &None));
}

#[test]
fn structured_mode() {
    let values = [
        structured(json!({ "datacontenttype": "application/json", "data": { "n": [1, null] } })),
        structured(json!({ "datacontenttype": "application/octet-stream", "data_base64": "AP8=" })),
        structured(json!({ "datacontenttype": "text/plain", "data": "Grüße" })),
        structured(json!({ "data": "text of JSON" })),
        structured(json!({})),
    ];
    let record = |value| Record { headers: &[STRUCTURED], value: Some(value), ..Record::default() };
    let (broker, topic) = publish(&values.each_ref().map(|value| record(value)));
    for reader in READERS {
        let events = reader(&broker, &topic, 5);
        assert!(events.iter().all(|event| event.mode == "structured"));
        assert!(events.iter().all(|event| event.extensions == tenant()));
        assert_eq!(events[0].attributes, attributes(Some("application/json")));
        assert_eq!(events[0].json(), json!({ "n": [1, null] }));
        assert_eq!(events[1].attributes, attributes(Some("application/octet-stream")));
        assert_eq!(events[1].data.as_deref(), Some(b"\x00\xff".as_slice()));
        assert_eq!(events[2].data.as_deref(), Some("Grüße".as_bytes()));
        assert_eq!(events[3].json(), json!("text of JSON"));
        assert_eq!(events[4].data, None);
    }
}

/// The SDKs differ here; both are within the specification.
#[test]
fn a_key_is_an_extension_for_python_only() {
    let (broker, topic) =
        publish(&[Record { key: Some(b"k"), headers: HEADERS, value: Some(b"1") }]);
    let (python, java) =
        (&python_cloudevents(&broker, &topic, 1)[0], &java_cloudevents(&broker, &topic, 1)[0]);
    assert_eq!((python.key.as_deref(), java.key.as_deref()), (Some(&b"k"[..]), Some(&b"k"[..])));
    assert_eq!(python.extensions.get("partitionkey"), Some(&json!("k")));
    assert_eq!(java.extensions.get("partitionkey"), None);
}

fn without_a_type() -> (Broker, String) {
    let headers: Vec<_> = HEADERS.iter().filter(|(name, _)| *name != "ce_type").copied().collect();
    publish(&[Record { headers: &headers, value: Some(b"1"), ..Record::default() }])
}

#[test]
#[should_panic(expected = "'type' must not be None or empty")]
fn python_refuses_an_event_without_a_type() {
    let (broker, topic) = without_a_type();
    python_cloudevents(&broker, &topic, 1);
}

#[test]
#[should_panic(expected = "Attribute 'type' cannot be null")]
fn java_refuses_an_event_without_a_type() {
    let (broker, topic) = without_a_type();
    java_cloudevents(&broker, &topic, 1);
}

#[test]
#[should_panic(expected = "one record, two events")]
fn python_refuses_a_record_that_is_a_different_event_in_each_mode() {
    let value = structured(json!({ "id": "8" }));
    let headers = [HEADERS, &[STRUCTURED]].concat();
    let (broker, topic) =
        publish(&[Record { headers: &headers, value: Some(&value), ..Record::default() }]);
    python_cloudevents(&broker, &topic, 1);
}
