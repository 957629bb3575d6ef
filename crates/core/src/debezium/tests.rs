//! No text makes any of it panic, and the same text becomes the same value.

use std::borrow::Cow;

use proptest::prelude::*;

use super::column::ConnectColumn;
use super::expand::{Expanded, Expansion};
use super::json::{write_data, write_string};
use super::modes::{BinaryMode, DecimalMode, Modes, TimeMode};
use super::reader::Reader;
use super::schema::{Kind, Schema};
use super::times::Fraction;
use super::{text, tracing};
use crate::row::ColumnType;

const READERS: [Reader; 14] = [
    Reader::Boolean,
    Reader::Bit,
    Reader::Integer,
    Reader::Float64,
    Reader::Decimal { scale: 2 },
    Reader::VariableDecimal,
    Reader::Date,
    Reader::ZonedTime,
    Reader::ZonedTimestamp(Fraction::Digits(3)),
    Reader::IsoTimestamp,
    Reader::ConnectTimestamp,
    Reader::Interval,
    Reader::Bits,
    Reader::Array(&Reader::Text),
];

/// What `[debezium]` makes of a payload, with all that is left out or kept.
fn expanded(payload: &str, keeps: bool) -> (String, String) {
    let expansion = Expansion { keeps_nulls: keeps, keeps_empty_arrays: keeps };
    match expansion.expand("payload", payload) {
        Expanded::Struct(schema, data) => {
            let (mut json, mut of_schema) = (String::new(), String::new());
            write_data(&mut json, &schema, &data);
            schema.write(&mut of_schema, None);
            drop(text::converted(Some(&schema), data));
            (of_schema, json)
        }
        other => (format!("{other:?}"), payload.to_owned()),
    }
}

#[test]
fn deep_nesting_is_not_expanded() {
    let nested = |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(expanded(&nested(100), false).1, nested(100));
    let deep = nested(100_000);
    assert_eq!(expanded(&deep, false).0, "Unchanged");
}

#[test]
fn the_last_of_members_with_one_name_stays_where_the_first_was() {
    assert_eq!(expanded(r#"{"b": 1, "a": 2, "b": 3}"#, false).1, r#"{"b":3,"a":2}"#);
    assert_eq!(expanded(r#"{"a": 1} and more"#, false).1, r#"{"a":1}"#);
}

#[test]
fn every_mode_describes_every_type() {
    let oids = [16, 17, 20, 21, 23, 25, 700, 701, 1082, 1083, 1114, 1184, 1186, 1266, 1700, 2950];
    for (_, decimals) in DecimalMode::ALL {
        for (_, times) in TimeMode::ALL {
            for (_, bytes) in BinaryMode::ALL {
                for type_oid in oids {
                    let column = ColumnType { type_oid, type_modifier: -1, ..Default::default() };
                    let modes = Modes { decimals, times, bytes };
                    let column = ConnectColumn::new(&column, modes).expect("a type that is known");
                    let head = format!("{}null}}", column.json_head());
                    serde_json::from_str::<serde_json::Value>(&head).expect("not JSON");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_payload_is_expanded_or_stays(
        payload in r#"[\{\["](["\{\}\[\],:a1. -]|null|true|"b"|1e3|\\u00e9){0,24}"#,
        keeps in any::<bool>(),
    ) {
        let first = expanded(&payload, keeps);
        prop_assert_eq!(&first, &expanded(&payload, keeps));
        if first.0.starts_with('{') {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&first.1).is_ok());
        }
    }

    #[test]
    fn any_text_is_read_or_not(text in r"(\PC|[0-9:. +-]|infinity|BC|NULL|[\{\},\\]){0,20}") {
        for reader in READERS {
            let read = reader.read(Cow::Borrowed(text.as_str()));
            prop_assert_eq!(&read, &reader.read(Cow::Borrowed(text.as_str())));
            if let Some(data) = read {
                let mut json = String::new();
                write_data(&mut json, &Schema::of(Kind::Text), &data);
            }
        }
        drop(tracing::trace_context(&text));
    }

    #[test]
    fn any_default_is_read_or_not(
        expression in r"(\PC|'|::|\(|\)|now|NULL|[0-9.-]){0,16}",
        type_name in "(bool|text|numeric|int4|json|uuid|date|timestamptz|time|interval|mood)",
        type_oid in prop::sample::select(vec![16u32, 25, 1700, 23, 114, 2950, 1082, 1184, 1083, 1186, 9999]),
        is_enum in any::<bool>(),
    ) {
        let enum_labels = if is_enum { vec!["sad".to_owned()] } else { Vec::new() };
        let column = ColumnType {
            type_oid,
            type_name,
            type_modifier: -1,
            not_null: false,
            default: Some(expression),
            enum_labels,
        };
        drop(ConnectColumn::new(&column, Modes::default()));
    }

    #[test]
    fn strings_are_json(text in any::<String>()) {
        let mut json = String::new();
        write_string(&mut json, &text);
        prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
