//! Every format, byte for byte.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::delivery::Reason;
use crate::envelope::Envelope;
use crate::format::{CLOUD_EVENT_HEADERS, Format, Frame, FramePlace, SchemaRules, Subject};
use crate::route::Template;
use crate::row::tests::{Given, row, rules, text};
use crate::row::{Column, ColumnNames};

const TEXT: u32 = 25;
const JSON: u32 = 114;
const BYTEA: u32 = 17;
const JSONB: u32 = 3802;

/// A record, with its texts as such.
#[derive(Debug, PartialEq)]
struct Sent {
    value: Option<Vec<u8>>,
    headers: Vec<(String, String)>,
}

impl Sent {
    fn header(&self, name: &str) -> Option<&str> {
        let mut with_name = self.headers.iter().filter(|(known, _)| known == name);
        let found = with_name.next().map(|(_, value)| value.as_str());
        assert!(with_name.next().is_none(), "{name} appears twice");
        found
    }

    fn json(&self) -> Value {
        serde_json::from_slice(self.value.as_deref().unwrap()).unwrap()
    }
}

fn cloud(value: ValueFormat) -> Format {
    let mut names = ColumnNames::default();
    let source = Template::parse("/shop/{tenant|none}").unwrap();
    let source = source.resolve(&mut names, None).unwrap();
    Format { source: Some(source), ..Format::of(value) }
}

fn sent(format: Format, columns: &[(&str, u32, Given)]) -> Result<Sent, RowFault> {
    let mut all = vec![("topic", TEXT, text("orders"))];
    all.extend_from_slice(columns);
    let envelope = Envelope { tables: vec![TableRules { format, ..rules() }] };
    row(&all, &ColumnNames::default(), |row| {
        let event = envelope.event(row)?;
        let record = envelope.original(&event)?;
        let text = |it: Option<Cow<'_, [u8]>>| String::from_utf8(it.unwrap().into_owned()).unwrap();
        let headers = record.headers.iter();
        Ok(Sent {
            value: record.value.map(Cow::into_owned),
            headers: headers.map(|it| (it.name.to_string(), text(it.value.clone()))).collect(),
        })
    })
}

/// An event with everything.
fn full(payload: (u32, Given)) -> Vec<(&'static str, u32, Given)> {
    vec![
        ("payload", payload.0, payload.1),
        ("id", TEXT, text("7")),
        ("idempotency_key", TEXT, text("i-1")),
        ("ordering_key", TEXT, text("o-1")),
        ("type", TEXT, text("order.paid")),
        ("tenant", TEXT, text("acme")),
        ("traceparent", TEXT, text("00-a-b-01")),
        ("headers", JSON, text(r#"{"x": "1"}"#)),
    ]
}

#[test]
fn json_has_the_whole_event() {
    let sent =
        sent(Format::of(ValueFormat::Json), &full((JSON, text(r#"{"a": "\u00e9"}"#)))).unwrap();
    assert_eq!(
        sent.json(),
        json!({
            "id": "7", "idempotency_key": "i-1", "ordering_key": "o-1", "type": "order.paid",
            "tenant": "acme", "traceparent": "00-a-b-01",
            "committed_at": "2000-01-01T00:00:00.000000Z", "table": "public.outbox",
            "position": {"commit_lsn": "0/1", "ordinal": 0}, "headers": {"x": "1"},
            "payload": {"a": "é"},
        })
    );
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("id"), Some("7"));
    assert!(sent.value.unwrap().ends_with(br#""payload":{"a": "\u00e9"}}"#), "kept byte for byte");
}

/// It depends on the column's type and on the content type, not on the value.
#[test]
fn payloads_in_json_are_json_text_or_base64() {
    let check =
        |type_oid, value: Given, content_type: Option<&str>, member: &str, expect: Value| {
            for format in [Format::of(ValueFormat::Json), cloud(ValueFormat::CloudEventsStructured)]
            {
                let is_cloud = format.value.is_cloud_event();
                let mut columns = full((type_oid, value.clone()));
                columns.extend(content_type.map(|it| ("content_type", TEXT, text(it))));
                let json = sent(format, &columns).unwrap().json();
                let member =
                    if is_cloud { member.replace("payload", "data") } else { member.to_owned() };
                assert_eq!(json[&member], expect, "{json}");
            }
        };
    check(JSONB, text("[1]"), None, "payload", json!([1]));
    check(JSON, text("\"x\""), Some("text/plain"), "payload", json!("x"));
    check(TEXT, text("[1]"), None, "payload", json!("[1]"));
    check(TEXT, text("[1]"), Some("application/json; charset=utf-8"), "payload", json!([1]));
    check(TEXT, text("[1]"), Some("application/vnd.shop.v1+JSON"), "payload", json!([1]));
    check(BYTEA, text("\\x5b315d"), Some("application/json"), "payload", json!([1]));
    check(BYTEA, text("\\x00ff"), None, "payload_base64", json!("AP8="));
    check(BYTEA, text("\\x5b315d"), None, "payload_base64", json!("WzFd"));
}

#[test]
fn what_cannot_be_encoded_names_the_column() {
    let payload = Column::Payload;
    for format in [Format::of(ValueFormat::Json), cloud(ValueFormat::CloudEventsStructured)] {
        let not_text = full((JSON, Given::Text(vec![b'"', 0xFF, b'"'])));
        assert_eq!(sent(format.clone(), &not_text), Err(RowFault::NotText(payload)));
        let mut broken = full((TEXT, text("{\"a\":")));
        broken.push(("content_type", TEXT, text("application/json")));
        let fault = sent(format, &broken).unwrap_err();
        assert!(matches!(fault, RowFault::NotEncodable { column, .. } if column == payload));
    }
}

#[test]
fn tombstones_have_no_value_in_any_format() {
    for value in ValueFormat::ALL {
        let sent = sent(cloud(value), &full((JSON, Given::Null))).unwrap();
        assert_eq!(sent.value, None, "{value:?}");
        let id = if value.is_cloud_event() { sent.header("ce_id") } else { sent.header("id") };
        assert!(id.is_some(), "{value:?}");
        assert_ne!(
            sent.header("content-type"),
            Some("application/cloudevents+json; charset=UTF-8")
        );
    }
}

#[test]
fn cloud_events_in_binary_mode() {
    let sent = sent(cloud(ValueFormat::CloudEventsBinary), &full((JSON, text("{}")))).unwrap();
    let expect = [
        ("content-type", "application/json"),
        ("traceparent", "00-a-b-01"),
        ("ce_specversion", "1.0"),
        ("ce_id", "i-1"),
        ("ce_source", "/shop/acme"),
        ("ce_type", "order.paid"),
        ("ce_time", "2000-01-01T00:00:00.000000Z"),
        ("ce_partitionkey", "o-1"),
        ("ce_traceparent", "00-a-b-01"),
        ("ce_tenant", "acme"),
        ("x", "1"),
    ];
    let found: Vec<_> = sent.headers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!((sent.value.as_deref(), found.as_slice()), (Some(&b"{}"[..]), &expect[..]));
    let of_format = found.iter().map(|(name, _)| *name).filter(|name| name.starts_with("ce_"));
    assert!(of_format.eq(CLOUD_EVENT_HEADERS));
}

#[test]
fn cloud_events_in_structured_mode() {
    let sent = sent(cloud(ValueFormat::CloudEventsStructured), &full((JSON, text("{}")))).unwrap();
    assert_eq!(
        sent.json(),
        json!({
            "specversion": "1.0", "id": "i-1", "source": "/shop/acme", "type": "order.paid",
            "time": "2000-01-01T00:00:00.000000Z", "partitionkey": "o-1",
            "traceparent": "00-a-b-01", "tenant": "acme", "datacontenttype": "application/json",
            "data": {},
        })
    );
    assert_eq!(sent.header("content-type"), Some("application/cloudevents+json; charset=UTF-8"));
    assert_eq!(sent.header("ce_id"), None);
}

/// A header of the row's own that would make consumers read another mode.
#[test]
fn a_structured_event_has_no_attribute_in_a_header() {
    let mut columns = full((JSON, text("{}")));
    columns.retain(|(column, ..)| *column != "headers");
    columns.push(("headers", JSON, text(r#"{"ce_shop": "x", "x": "1"}"#)));
    let names = |value| {
        let sent = sent(cloud(value), &columns).unwrap();
        (sent.header("ce_shop").is_some(), sent.header("x").is_some())
    };
    assert_eq!(names(ValueFormat::CloudEventsStructured), (false, true));
    assert_eq!(names(ValueFormat::CloudEventsBinary), (true, true));
}

#[test]
fn cloud_events_without_what_they_need_are_faults() {
    for value in [ValueFormat::CloudEventsBinary, ValueFormat::CloudEventsStructured] {
        let without = |name: &str| {
            let mut columns = full((JSON, text("{}")));
            columns.retain(|(column, ..)| *column != name && *column != "id");
            sent(cloud(value), &columns)
        };
        assert_eq!(without("type"), Err(RowFault::Absent(Column::Type)));
        assert_eq!(without("idempotency_key"), Err(RowFault::Null(Column::IdempotencyKey)));
        let with_type = |text_: &str| {
            let mut columns = full((JSON, text("{}")));
            columns.retain(|(column, ..)| *column != "type");
            columns.push(("type", TEXT, text(text_)));
            sent(cloud(value), &columns)
        };
        for bad in ["", "a\nb", "\u{FFFE}"] {
            let fault = with_type(bad).unwrap_err();
            assert!(
                matches!(fault, RowFault::CloudAttribute { attribute: "type", .. }),
                "{bad:?}: {fault:?}"
            );
        }
        assert!(with_type("größe").is_ok());
    }
}

fn with_schema(schema: SchemaRules) -> Format {
    Format { schema: Some(schema), ..Format::default() }
}

#[test]
fn a_schemas_id_comes_before_the_payload() {
    let mut names = ColumnNames::default();
    let id = Template::parse("{schema_id}").unwrap().resolve(&mut names, None).unwrap();
    let rules_of = |message_index| SchemaRules {
        id: Some(id.clone()),
        topic_ids: [("payments".to_owned(), 3)].into(),
        frame: Frame { message_index, ..Frame::default() },
        ..SchemaRules::default()
    };
    let value = |schema: SchemaRules, topic: &str, schema_id: Given| {
        let envelope =
            Envelope { tables: vec![TableRules { format: with_schema(schema), ..rules() }] };
        let columns = [
            ("topic", TEXT, text(topic)),
            ("payload", TEXT, text("x")),
            ("schema_id", TEXT, schema_id),
        ];
        row(&columns, &names, |row| {
            let event = envelope.event(row)?;
            Ok(envelope.original(&event)?.value.map(Cow::into_owned))
        })
    };
    let id = || text("258");
    let framed = |bytes: &[u8]| Ok(Some(bytes.to_vec()));
    assert_eq!(value(rules_of(vec![]), "orders", id()), framed(b"\0\0\0\x01\x02x"));
    assert_eq!(value(rules_of(vec![0]), "orders", id()), framed(b"\0\0\0\x01\x02\0x"));
    assert_eq!(value(rules_of(vec![]), "payments", id()), framed(b"\0\0\0\0\x03x"));
    assert_eq!(value(rules_of(vec![]), "orders", text("x")), Err(RowFault::SchemaId));
    let fault = value(rules_of(vec![]), "orders", Given::Null).unwrap_err();
    assert_eq!(fault.reason(), Reason::ColumnNull, "{fault:?}");
    let topics_only = SchemaRules { id: None, ..rules_of(vec![]) };
    assert_eq!(value(topics_only, "orders", id()), Err(RowFault::NoSchemaForTopic));
}

/// What a record will take is known before its schema is.
#[test]
fn a_schema_that_is_looked_up_is_added_later_and_counted_before() {
    let schema = Schema { id: 7, guid: Some([9; 16]) };
    for (place, message_index) in [
        (FramePlace::Value, vec![]),
        (FramePlace::Value, vec![4, 2, 0]),
        (FramePlace::Header, vec![0]),
    ] {
        let frame = Frame { place, message_index: message_index.clone() };
        let subject = Some(Subject::OfTopic);
        let format = with_schema(SchemaRules { subject, frame, ..SchemaRules::default() });
        let envelope = Envelope { tables: vec![TableRules { format, ..rules() }] };
        let columns = [("topic", TEXT, text("orders")), ("payload", TEXT, text("x"))];
        row(&columns, &ColumnNames::default(), |row| {
            let event = envelope.event(row).unwrap();
            let record = envelope.original(&event).unwrap();
            assert_eq!(record.schema.as_ref().unwrap().subject, "orders-value");
            let whole = record.with_schema(&schema).unwrap();
            assert_eq!(whole.schema, None);
            assert_eq!(whole.batch_bytes(), record.batch_bytes());
            assert_eq!(whole.content_bytes(), record.content_bytes());
            let value = whole.value.as_deref().unwrap();
            if place == FramePlace::Value {
                let expect = [&[0, 0, 0, 0, 7][..], &message_index, b"x"].concat();
                assert_eq!((value, whole.headers.len()), (&expect[..], 0));
            } else {
                let header = whole.headers.last().unwrap();
                let expect = [&[1][..], &[9; 16], &message_index].concat();
                assert_eq!((value, header.name.as_ref()), (&b"x"[..], "__value_schema_id"));
                assert_eq!(header.value.as_deref(), Some(&expect[..]));
                assert!(record.with_schema(&Schema { guid: None, ..schema }).is_none());
            }
        });
    }
}

proptest! {
    #[test]
    fn encoding_never_panics_and_is_deterministic(
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
        type_oid in prop::sample::select(vec![JSON, JSONB, TEXT, BYTEA]),
        payload in prop::collection::vec(any::<u8>(), 0..30),
        content_type in "(application/json|text/plain|[ -~]{0,8})",
        kind in "\\PC{0,5}",
    ) {
        let columns = [
            ("payload", type_oid, Given::Text(payload)),
            ("id", TEXT, text("7")),
            ("type", TEXT, text(&kind)),
            ("content_type", TEXT, text(&content_type)),
        ];
        let first = sent(cloud(format), &columns);
        prop_assert_eq!(&first, &sent(cloud(format), &columns));
        // Columns of JSON that Postgres would have checked aside, JSON stays JSON.
        if let Ok(Sent { value: Some(value), .. }) = first
            && matches!(format, ValueFormat::Json | ValueFormat::CloudEventsStructured)
            && ![JSON, JSONB].contains(&type_oid)
        {
            prop_assert!(serde_json::from_slice::<Value>(&value).is_ok());
        }
    }
}
