//! Rows by their bytes: every type in both forms, every fault by its name, any bytes at all.

use proptest::prelude::*;

use super::*;
use crate::event::{Event, TableRules};
use crate::format::Format;
use crate::lsn::Lsn;
use crate::pgoutput::tests::Bytes;
use crate::pgoutput::{Message, PgTime, decode};
use crate::route::Route;
use crate::transaction::Position;

/// The rules of a table that nothing is configured about.
pub fn rules() -> TableRules {
    let (route, format) = (Route::default(), Format::default());
    TableRules { name: "public.outbox".to_owned(), route, format, debezium: None }
}

pub fn position(ordinal: u64) -> Position {
    let (commit_lsn, change_lsn) = (Lsn::new(1), Lsn::ZERO);
    Position { commit_lsn, change_lsn, ordinal, in_transaction: ordinal }
}

const TEXT: u32 = 25;
const JSON: u32 = 114;
const JSONB: u32 = 3802;
const BYTEA: u32 = 17;
const INT4: u32 = 23;
const INT8: u32 = 20;
const UUID: u32 = 2950;
const ENUM: u32 = 99_999;

/// A value as it is in a row.
#[derive(Debug, Clone)]
pub enum Given {
    Null,
    Toast,
    Text(Vec<u8>),
    Binary(Vec<u8>),
}

pub fn text(text: &str) -> Given {
    Given::Text(text.as_bytes().to_vec())
}

fn binary(bytes: &[u8]) -> Given {
    Given::Binary(bytes.to_vec())
}

fn layout(columns: &[(&str, u32)]) -> Result<Layout, LayoutError> {
    mapped_layout(columns, &ColumnNames::default())
}

fn mapped_layout(columns: &[(&str, u32)], mapped: &ColumnNames) -> Result<Layout, LayoutError> {
    let mut bytes = Bytes::of(b'R').i32(1).text("public").text("outbox").u8(b'd');
    bytes = bytes.i16(columns.len() as i16);
    for (name, type_oid) in columns {
        bytes = bytes.u8(0).text(name).i32(*type_oid as i32).i32(-1);
    }
    let Ok(Message::Relation(relation)) = decode(&bytes.0) else { panic!() };
    Layout::new(0, &relation, mapped)
}

/// Reads a row of these columns and passes the event on.
pub fn event<T>(
    columns: &[(&str, u32, Given)],
    look: impl FnOnce(Result<Event<'_>, RowFault>) -> T,
) -> T {
    mapped_event(columns, &ColumnNames::default(), look)
}

fn mapped_event<T>(
    columns: &[(&str, u32, Given)],
    mapped: &ColumnNames,
    look: impl FnOnce(Result<Event<'_>, RowFault>) -> T,
) -> T {
    row(columns, mapped, |row| look(Event::from_row(row, &rules())))
}

/// Reads a row of these columns and passes it on.
pub fn row<T>(
    columns: &[(&str, u32, Given)],
    mapped: &ColumnNames,
    look: impl FnOnce(&Row<'_>) -> T,
) -> T {
    let names: Vec<_> = columns.iter().map(|(name, type_oid, _)| (*name, *type_oid)).collect();
    let mut bytes = Bytes::of(b'I').i32(1).u8(b'N').i16(columns.len() as i16);
    for (_, _, value) in columns {
        bytes = match value {
            Given::Null => bytes.u8(b'n'),
            Given::Toast => bytes.u8(b'u'),
            Given::Text(content) => bytes.value(b't', content),
            Given::Binary(content) => bytes.value(b'b', content),
        };
    }
    let Ok(Message::Insert { row, .. }) = decode(&bytes.0) else { panic!() };
    let row =
        Row::read(&mapped_layout(&names, mapped).unwrap(), &row, position(0), PgTime(0)).unwrap();
    look(&row)
}

fn check_payload(type_oid: u32, value: Given, expect: Result<Option<&[u8]>, RowFault>) {
    let columns = [("topic", TEXT, text("t")), ("payload", type_oid, value)];
    event(&columns, |event| {
        let got = event.map(|event| event.payload.map(|payload| payload.into_owned()));
        assert_eq!(got, expect.map(|payload| payload.map(<[u8]>::to_vec)));
    });
}

#[test]
fn payloads_in_both_forms() {
    check_payload(JSON, text("{\"a\": 1}"), Ok(Some(b"{\"a\": 1}")));
    check_payload(JSON, binary(b"{\"a\": 1}"), Ok(Some(b"{\"a\": 1}")));
    check_payload(JSONB, text("{\"a\": 1}"), Ok(Some(b"{\"a\": 1}")));
    check_payload(JSONB, binary(b"\x01{\"a\": 1}"), Ok(Some(b"{\"a\": 1}")));
    check_payload(TEXT, text("x"), Ok(Some(b"x")));
    check_payload(TEXT, text(""), Ok(Some(b"")));
    check_payload(BYTEA, text("\\x00ffAb"), Ok(Some(&[0, 0xFF, 0xAB])));
    check_payload(BYTEA, text("\\x"), Ok(Some(b"")));
    check_payload(BYTEA, binary(&[0, 0xFF]), Ok(Some(&[0, 0xFF])));
    check_payload(ENUM, text("happy"), Ok(Some(b"happy")));
    check_payload(JSON, Given::Null, Ok(None));
}

#[test]
fn payloads_that_are_not_what_they_promise() {
    let column = Column::Payload;
    let unreadable = |expected| Err(RowFault::Unreadable { column, expected });
    check_payload(JSONB, binary(b"\x02{}"), unreadable("jsonb version 1"));
    check_payload(JSONB, binary(b""), unreadable("jsonb version 1"));
    for hex in ["\\x0", "\\xzz", "00", ""] {
        check_payload(BYTEA, text(hex), unreadable("bytea in hex format"));
    }
    check_payload(ENUM, binary(b"x"), unreadable("a built-in type's binary form"));
    check_payload(JSON, Given::Toast, Err(RowFault::ValueMissing(column)));
}

#[test]
fn ids_are_text_whatever_their_type() {
    let check = |type_oid, value, expect: &str| {
        let columns =
            [("id", type_oid, value), ("topic", TEXT, text("t")), ("payload", JSON, text("1"))];
        event(&columns, |event| assert_eq!(event.unwrap().id.as_deref(), Some(expect)));
    };
    let uuid = "0190b0e6-1111-7abc-8def-0123456789ab";
    let uuid_bytes = 0x0190_b0e6_1111_7abc_8def_0123_4567_89ab_u128.to_be_bytes();
    check(INT8, text("9223372036854775807"), "9223372036854775807");
    check(INT8, binary(&i64::MIN.to_be_bytes()), "-9223372036854775808");
    check(INT4, binary(&42i32.to_be_bytes()), "42");
    check(21, binary(&(-7i16).to_be_bytes()), "-7");
    check(UUID, text(uuid), uuid);
    check(UUID, binary(&uuid_bytes), uuid);
    check(TEXT, binary("ä".as_bytes()), "ä");
}

#[test]
fn faults_have_names() {
    let check = |name, type_oid, value: Given, fault: RowFault| {
        let topic = if name == "topic" { value.clone() } else { text("t") };
        let columns =
            [("topic", TEXT, topic), ("payload", JSON, text("1")), (name, type_oid, value)];
        let columns = if name == "topic" { &columns[..2] } else { &columns[..] };
        event(columns, |event| assert_eq!(event.unwrap_err(), fault));
    };
    check("topic", TEXT, Given::Null, RowFault::Null(Column::Topic));
    check("topic", TEXT, binary(&[0xFF]), RowFault::NotText(Column::Topic));
    for topic in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
        check("topic", TEXT, text(topic), RowFault::IllegalTopic);
    }
    check("partition", INT4, text("-1"), RowFault::NegativePartition(-1));
    let column = Column::Partition;
    for partition in ["99999999999", "x"] {
        let fault = RowFault::Unreadable { column, expected: "a 32-bit integer" };
        check("partition", INT4, text(partition), fault);
    }
    check(
        "partition",
        INT4,
        binary(&[1, 2, 3]),
        RowFault::Unreadable { column, expected: "an integer" },
    );
    check(
        "id",
        UUID,
        binary(&[1]),
        RowFault::Unreadable { column: Column::Id, expected: "a uuid" },
    );
}

#[test]
fn layouts_that_can_be_no_outbox() {
    let table = || "public.outbox".to_owned();
    let missing = |column| {
        let column = format!("\"{column}\"");
        LayoutError::Missing { table: table(), column }
    };
    assert_eq!(layout(&[("payload", JSON)]), Err(missing("topic")));
    assert_eq!(layout(&[("topic", TEXT), ("Payload", JSON)]), Err(missing("payload")));
    let wrong = |column, type_oid, wanted| {
        let column = format!("\"{column}\"");
        Err(LayoutError::WrongType { table: table(), column, type_oid, wanted })
    };
    let with = |name, type_oid| layout(&[("topic", TEXT), ("payload", JSON), (name, type_oid)]);
    assert_eq!(with("headers", BYTEA), wrong("headers", BYTEA, "json or jsonb"));
    assert_eq!(with("partition", TEXT), wrong("partition", TEXT, "int"));
    assert_eq!(with("tenant", JSON), wrong("tenant", JSON, "text, a number or uuid"));
    assert!(with("created_at", 1184).is_ok(), "columns without a meaning may be anything");
    assert!(with("ordering_key", ENUM).is_ok());
}

#[test]
fn mapped_columns_have_the_meaning_they_are_given() {
    let mut names = ColumnNames::default();
    for (column, name) in [
        (Column::IdempotencyKey, "id"),
        (Column::Topic, "aggregatetype"),
        (Column::OrderingKey, "aggregateid"),
    ] {
        names.map(column, name.to_owned());
    }
    names.map(Column::Tenant, "aggregateid".to_owned());
    let columns = [
        ("id", INT4, binary(&7i32.to_be_bytes())),
        // Has another name here, so it means nothing.
        ("topic", JSON, text("no topic")),
        ("aggregatetype", TEXT, text("orders")),
        ("aggregateid", TEXT, text("o-1")),
        ("type", TEXT, text("paid")),
        ("payload", JSON, text("{}")),
        ("traceparent", TEXT, text("00-a")),
    ];
    mapped_event(&columns, &names, |event| {
        let event = event.unwrap();
        assert_eq!(event.topic, "orders");
        assert_eq!((event.id.as_deref(), event.idempotency_key.as_deref()), (Some("7"), Some("7")));
        assert_eq!((event.ordering_key(), event.tenant.as_deref()), (Some("o-1"), Some("o-1")));
        assert_eq!(event.event_type.as_deref(), Some("paid"));
        assert_eq!(event.traceparent.as_deref(), Some("00-a"));
    });
}

#[test]
fn a_mapped_column_must_be_there_and_fit() {
    let mut names = ColumnNames::default();
    names.map(Column::Tenant, "organisation".to_owned());
    let layout = |columns: &[_]| mapped_layout(columns, &names);
    let missing = LayoutError::Missing {
        table: "public.outbox".to_owned(),
        column: "\"organisation\" (our tenant)".to_owned(),
    };
    let tenant = ("tenant", TEXT);
    assert_eq!(layout(&[("topic", TEXT), ("payload", JSON), tenant]), Err(missing));
    let wrong = layout(&[("topic", TEXT), ("payload", JSON), ("organisation", JSON)]);
    assert!(matches!(wrong, Err(LayoutError::WrongType { .. })), "{wrong:?}");
}

#[test]
fn the_stream_names_what_a_domain_is_over() {
    for type_oid in [TEXT, 1043, 1042, 19, JSON, JSONB, BYTEA, INT8, INT4, 21, UUID] {
        assert!(has_binary_form(type_oid));
    }
    assert_eq!(built_in_type("", "bytea"), Some(BYTEA));
    assert_eq!(built_in_type("pg_catalog", "jsonb"), Some(JSONB));
    assert_eq!(built_in_type("public", "bytea"), None);
    assert_eq!(built_in_type("pg_catalog", "point"), None);
}

fn any_value() -> impl Strategy<Value = Given> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        Just(Given::Null),
        Just(Given::Toast),
        bytes().prop_map(Given::Text),
        bytes().prop_map(Given::Binary),
    ]
}

proptest! {
    #[test]
    fn no_values_panic(
        payload in any_value(), id in any_value(), partition in any_value(),
        types in prop::sample::select(vec![(JSON, INT8), (JSONB, UUID), (BYTEA, TEXT), (ENUM, ENUM)]),
    ) {
        let columns = [
            ("topic", TEXT, text("t")),
            ("payload", types.0, payload),
            ("id", types.1, id),
            ("partition", INT4, partition),
        ];
        event(&columns, |event| drop(event));
    }
}
