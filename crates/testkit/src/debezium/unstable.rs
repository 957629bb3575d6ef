//! What is another one in each run, and therefore is not compared.

use serde_json::Value;

use super::case::{Case, Step};
use crate::consumer::Received;

/// A time further from now than any run takes is one that the row has.
const OWN_TIME_FROM_MS: u128 = 24 * 60 * 60 * 1_000;
/// The id of a run of a connector.
const RUN_ID: &str = "__debezium.context.runId";

/// None if any partition would do.
pub(super) fn partition(record: &Received, case: &Case) -> Option<i32> {
    let is_placed = record.key.is_some() || case.configuration.places_partitions();
    is_placed.then_some(record.partition)
}

/// None if it is the time of the run.
pub(super) fn timestamp_ms(record: &Received, case: &Case) -> Option<i64> {
    let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis().cast_signed();
    let is_own = |at_ms: &i64| now_ms.abs_diff((*at_ms).into()) > OWN_TIME_FROM_MS;
    let placed = record.timestamp_ms.filter(|_| case.configuration.places_timestamps());
    placed.filter(is_own)
}

/// A header's value.
pub(super) fn header(name: &str, value: Option<&[u8]>, step: &Step) -> Option<Vec<u8>> {
    let text = value.map(String::from_utf8_lossy);
    match (name, text) {
        (RUN_ID, Some(_)) => Some(b"(of the run)".to_vec()),
        ("traceparent", Some(text)) => Some(without_span(&text, step).into_bytes()),
        _ => value.map(<[u8]>::to_vec),
    }
}

/// A record's value.
pub(super) fn value(value: Option<&[u8]>, case: &Case) -> Option<Vec<u8>> {
    let text = value.and_then(|bytes| std::str::from_utf8(bytes).ok());
    match text {
        Some(text) if case.any_field_order => Some(sorted(text).into_bytes()),
        Some(text) => Some(without_addresses(text).into_bytes()),
        None => value.map(<[u8]>::to_vec),
    }
}

/// JSON with the fields of objects, and the fields of schemas, in the order of their names.
fn sorted(text: &str) -> String {
    let mut json: Value = serde_json::from_str(text).expect("a value that is not JSON");
    sort(&mut json);
    json.to_string()
}

fn sort(json: &mut Value) {
    match json {
        Value::Array(items) => {
            items.iter_mut().for_each(sort);
            items.sort_by_key(|item| item["field"].as_str().map(str::to_owned));
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(sort);
            let mut sorted: Vec<_> = std::mem::take(fields).into_iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
            fields.extend(sorted);
        }
        _ => {}
    }
}

/// Without the addresses of Java's objects, which StringConverter writes for bytes inside of others.
fn without_addresses(text: &str) -> String {
    const ADDRESS: &str = "[B@";
    let mut parts = text.split(ADDRESS);
    let mut stable = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        stable.push_str(ADDRESS);
        stable.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    stable
}

/// `00-TRACE-SPAN-FLAGS`: Debezium begins a span of its own, also a trace if the row has none.
fn without_span(traceparent: &str, step: &Step) -> String {
    let mut parts: Vec<&str> = traceparent.split('-').collect();
    if let [_, trace, span, _] = parts.as_mut_slice() {
        if !step.sql.contains(*trace) {
            *trace = "(new)";
        }
        *span = "(span)";
    }
    parts.join("-")
}
