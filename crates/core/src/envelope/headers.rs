//! Record headers: ours first, then the row's own.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Header;
use crate::row::{Event, RowFault};

/// Names that a row's own headers can't use.
const OURS: [&str; 2] = [ID, IDEMPOTENCY_KEY];
/// The header with the row's id.
const ID: &str = "id";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The header with the time of the commit, if the timestamp had to differ.
pub const COMMITTED_AT: &str = "committed-at";

pub(super) fn headers<'a>(
    event: &'a Event<'_>,
    committed_at: Option<String>,
) -> Result<Vec<Header<'a>>, RowFault> {
    let columns = [
        (ID, &event.id),
        (IDEMPOTENCY_KEY, &event.idempotency_key),
        ("type", &event.event_type),
        ("content-type", &event.content_type),
        ("tenant", &event.tenant),
        ("traceparent", &event.traceparent),
    ];
    let mut headers = Vec::with_capacity(columns.len());
    for (name, value) in columns {
        if let Some(value) = value.as_deref() {
            headers.push(Header {
                name: Cow::Borrowed(name),
                value: Some(Cow::Borrowed(value.as_bytes())),
            });
        }
    }
    if let Some(committed_at) = committed_at {
        headers.push(Header {
            name: Cow::Borrowed(COMMITTED_AT),
            value: Some(Cow::Owned(committed_at.into_bytes())),
        });
    }
    if let Some(json) = event.headers.as_deref() {
        own_headers(json, &mut headers)?;
    }
    Ok(headers)
}

fn own_headers<'a>(json: &'a [u8], headers: &mut Vec<Header<'a>>) -> Result<(), RowFault> {
    let Object(entries) = serde_json::from_slice(json).map_err(|_| RowFault::HeadersNotObject)?;
    for (Text(name), value) in entries {
        if OURS.contains(&name.as_ref()) {
            continue;
        }
        if name.contains('\0') {
            return Err(RowFault::HeaderName);
        }
        headers.push(Header { name, value: header_value(value)? });
    }
    Ok(())
}

/// Strings as they are, null as null, everything else as its JSON text.
fn header_value(json: &RawValue) -> Result<Option<Cow<'_, [u8]>>, RowFault> {
    let json = json.get();
    if json == "null" {
        return Ok(None);
    }
    if !json.starts_with('"') {
        return Ok(Some(Cow::Borrowed(json.as_bytes())));
    }
    let Text(text) = serde_json::from_str(json).map_err(|_| RowFault::HeadersNotObject)?;
    Ok(Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }))
}

/// A string that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A JSON object's entries in their order, values unread.
struct Object<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: Result<&[(&str, Option<&str>)], RowFault>) {
        let mut headers = Vec::new();
        let got = own_headers(json.as_bytes(), &mut headers).map(|()| {
            headers
                .iter()
                .map(|h| (h.name.as_ref(), h.value.as_deref().map(|v| str::from_utf8(v).unwrap())))
                .collect::<Vec<_>>()
        });
        assert_eq!(got.as_deref().map_err(Clone::clone), expect, "{json}");
    }

    #[test]
    fn values_become_text() {
        check(
            r#" {"s":"a b","n":1.50,"t":true,"z":null,"o":{"x": [1, 2]},"e":"\u00e9\n"} "#,
            Ok(&[
                ("s", Some("a b")),
                ("n", Some("1.50")),
                ("t", Some("true")),
                ("z", None),
                ("o", Some(r#"{"x": [1, 2]}"#)),
                ("e", Some("é\n")),
            ]),
        );
        check("{}", Ok(&[]));
    }

    #[test]
    fn ours_stay_ours() {
        check(r#"{"id":"9","idempotency-key":"x","type":"mine"}"#, Ok(&[("type", Some("mine"))]));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for json in ["", "[]", "1", "null", "\"x\"", "{\"a\":1", "{\"a\":\"\\ud800\"}", "{} {}"] {
            check(json, Err(RowFault::HeadersNotObject));
        }
        check(r#"{"a\u0000b":1}"#, Err(RowFault::HeaderName));
    }
}
