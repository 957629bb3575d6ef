//! No text makes any of it panic, and the same text becomes the same value.

use std::borrow::Cow;

use proptest::prelude::*;

use super::column::{ColumnType, ConnectColumn};
use super::json::{write_data, write_string};
use super::modes::{BinaryMode, DecimalMode, Modes, TimeMode};
use super::reader::Reader;
use super::schema::{Kind, Schema};
use super::times::Fraction;

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
    fn any_text_is_read_or_not(text in r"(\PC|[0-9:. +-]|infinity|BC|NULL|[\{\},\\]){0,20}") {
        for reader in READERS {
            let read = reader.read(Cow::Borrowed(text.as_str()));
            prop_assert_eq!(&read, &reader.read(Cow::Borrowed(text.as_str())));
            if let Some(data) = read {
                let mut json = String::new();
                write_data(&mut json, &Schema::of(Kind::Text), &data);
            }
        }
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
