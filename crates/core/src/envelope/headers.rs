//! Record headers: ours first, then the row's own.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Header, format};
use crate::event::{Event, TableRules};
use crate::format::ValueFormat;
use crate::route::DefaultHeader;
use crate::row::RowFault;

/// The header with the time of the commit, if the timestamp had to differ.
pub const COMMITTED_AT: &str = "committed-at";

/// The default headers, those of the configuration and of the format, and the row's own.
pub(super) fn headers<'a>(
    event: &'a Event<'_>,
    rules: &'a TableRules,
    mut content_type: Option<Cow<'a, str>>,
    mut of_format: Vec<Header<'a>>,
    mut committed_at: Option<String>,
) -> Result<Vec<Header<'a>>, RowFault> {
    let wanted = &rules.route.headers;
    let count_max = DefaultHeader::ALL.len() + of_format.len() + event.placed.len();
    let mut headers = Vec::with_capacity(count_max);
    let borrowed = |text: &'a Option<Cow<'_, str>>| text.as_deref().map(Cow::Borrowed);
    let value_format = rules.format.value;
    for header in DefaultHeader::ALL {
        // Consumers of CloudEvents tell the mode by it.
        let is_needed = header == DefaultHeader::ContentType && value_format.is_cloud_event();
        let is_replaced = format::replaces(value_format, header)
            || (header == DefaultHeader::Id && event.converted.is_some());
        if !(wanted.has(header) || is_needed) || is_replaced {
            continue;
        }
        let value = match header {
            DefaultHeader::Id => borrowed(&event.id),
            DefaultHeader::IdempotencyKey => borrowed(&event.idempotency_key),
            DefaultHeader::Type => borrowed(&event.event_type),
            DefaultHeader::ContentType => content_type.take(),
            DefaultHeader::Tenant => borrowed(&event.tenant),
            DefaultHeader::Traceparent => borrowed(&event.traceparent),
            DefaultHeader::CommittedAt => committed_at.take().map(Cow::Owned),
        };
        if let Some(value) = value {
            headers.push(Header { name: Cow::Borrowed(header.name()), value: Some(bytes(value)) });
        }
    }
    // As a connector's headers come before those that Debezium's Event Router adds.
    let is_routed = event.converted.is_some();
    if !is_routed {
        headers.append(&mut of_format);
    }
    for ((name, _), value) in wanted.placed().iter().zip(&event.placed) {
        if let Some(value) = value.as_deref() {
            let value = Some(Cow::Borrowed(value.as_bytes()));
            headers.push(Header { name: Cow::Borrowed(name), value });
        }
    }
    headers.append(&mut of_format);
    if let Some(json) = event.headers.as_deref() {
        own_headers(json, rules, &mut headers)?;
    }
    Ok(headers)
}

/// Whether records say when they were committed if their timestamp can't.
pub(super) fn adds_committed_at(rules: &TableRules) -> bool {
    let header = DefaultHeader::CommittedAt;
    rules.route.headers.has(header) && !format::replaces(rules.format.value, header)
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Names that a row's own headers can't use, because consumers rely on what they say.
fn is_ours(name: &str, rules: &TableRules, headers: &[Header<'_>]) -> bool {
    let identity = [DefaultHeader::Id, DefaultHeader::IdempotencyKey];
    let ours = |header: DefaultHeader| name == header.name() && rules.route.headers.has(header);
    let of_format = rules.format.value != ValueFormat::Raw
        && (name == DefaultHeader::ContentType.name() || name.starts_with("ce_"))
        && headers.iter().any(|header| header.name == name);
    // Some consumers take a structured event with such a header for one in binary mode.
    let is_misleading =
        rules.format.value == ValueFormat::CloudEventsStructured && name.starts_with("ce_");
    of_format || is_misleading || identity.into_iter().any(ours)
}

fn own_headers<'a>(
    json: &'a [u8],
    rules: &TableRules,
    headers: &mut Vec<Header<'a>>,
) -> Result<(), RowFault> {
    let Object(entries) = serde_json::from_slice(json).map_err(|_| RowFault::HeadersNotObject)?;
    for (Text(name), value) in entries {
        if is_ours(&name, rules, headers) {
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
    use crate::row::tests::rules;

    fn check(json: &str, expect: Result<&[(&str, Option<&str>)], RowFault>) {
        let mut headers = Vec::new();
        let got = own_headers(json.as_bytes(), &rules(), &mut headers).map(|()| {
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
