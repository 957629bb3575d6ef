//! What is another one in each run, and therefore is not compared.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::case::{Case, Step};
use crate::consumer::Received;

/// Of a time that a row has relative to now.
const NEAR_MS: u64 = 60 * 1_000;
/// A time further from now than any run takes is one that the row has.
const FAR_MS: u64 = 24 * 60 * 60 * 1_000;
/// The id of a run of a connector.
const RUN_ID: &str = "__debezium.context.runId";

/// None if any partition would do.
pub(super) fn partition(record: &Received, case: &Case) -> Option<i32> {
    let is_placed = record.key.is_some() || case.configuration.places_partitions();
    is_placed.then_some(record.partition)
}

/// The second an hour before the first call.
fn base() -> SystemTime {
    static BASE: OnceLock<SystemTime> = OnceLock::new();
    *BASE.get_or_init(|| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() - 60 * 60)
    })
}

/// As a timestamp without a zone, to which a fraction can be appended.
pub(super) fn hour_ago() -> String {
    let time = humantime::format_rfc3339_seconds(base()).to_string();
    time.trim_end_matches('Z').to_owned()
}

/// None if it is the time of the run. A time near [`hour_ago`] counts from there.
pub(super) fn timestamp_ms(record: &Received, case: &Case) -> Option<i64> {
    let placed = record.timestamp_ms.filter(|_| case.configuration.places_timestamps())?;
    let base = base().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let after_ms = placed - i64::try_from(base).unwrap();
    if after_ms.unsigned_abs() < NEAR_MS {
        Some(after_ms)
    } else {
        (after_ms.unsigned_abs() > FAR_MS).then_some(placed)
    }
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
