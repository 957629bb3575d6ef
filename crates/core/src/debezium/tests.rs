//! No payload makes the expansion panic, and the same payload becomes the same value.

use proptest::prelude::*;

use super::expand::{Expanded, Expansion};
use super::tracing;
use crate::connect::{Converter, Typed, convert};

/// What `[debezium]` makes of a payload, with all that is left out or kept.
fn expanded(payload: &str, keeps: bool) -> (String, String) {
    let expansion = Expansion { keeps_nulls: keeps, keeps_empty_arrays: keeps };
    match expansion.expand("payload", payload) {
        Expanded::Struct(schema, data) => {
            let convert = |converter| {
                let typed = Typed::inferred(Some(schema.clone()), data.clone());
                let bytes = convert(converter, typed).unwrap().unwrap();
                String::from_utf8(bytes.into_owned()).unwrap()
            };
            convert(Converter::Text);
            (convert(Converter::JsonWithSchemas), convert(Converter::Json))
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
fn small_payloads_do_not_become_large_ones() {
    let nested = format!("{}1{}", r#"{"a":["#.repeat(60), "]}".repeat(60));
    assert_eq!(expanded(&nested, false).1, nested);
    let members: Vec<String> = (0..9_000).map(|number| format!("{{\"a{number}\":1}}")).collect();
    let each_its_own = format!("{{\"x\":[{}]}}", members.join(","));
    assert_eq!(expanded(&each_its_own, false).0, "TooLarge");
    let objects: Vec<String> = (0..5_000).map(|number| format!("\"a{number}\":{{}}")).collect();
    let long_name = format!("{{\"{}\":{{{}}}}}", "x".repeat(50_000), objects.join(","));
    assert_eq!(expanded(&long_name, false).0, "TooLarge");
    let many = format!("{{\"x\":[{}1]}}", "1,".repeat(1_000_000));
    assert_eq!(expanded(&many, false).0, "TooLarge");
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
    fn any_text_has_a_trace_context_or_none(text in r"(\PC|[0-9a-f-]|traceparent=|\\|\n){0,40}") {
        drop(tracing::trace_context(&text));
    }
}
