//! Many events as one call: an array for each argument. No I/O.

use std::borrow::Cow;

use super::event::{Event, Payload};
use super::{Call, Invalid, JsonText, Value, trace};

/// The error names the first event that can't be published.
pub(super) fn check(events: &[Event], tenant_keys: bool) -> Result<(), Invalid> {
    for (index, event) in events.iter().enumerate() {
        event.check(tenant_keys).map_err(|invalid| invalid.at(index + 1, events.len()))?;
    }
    Ok(())
}

pub(super) fn call_enqueue<'a>(table: &'a str, events: &'a [Event]) -> Call<'a> {
    // The function that `enqueue_batch` and `enqueue_batch_bytes` call.
    let mut call = call(["enqueue_many"; 2], events);
    call.checked();
    call.text("outbox", "text::regclass", Some(table));
    call
}

pub(super) fn call_emit(events: &[Event]) -> Call<'_> {
    call(["emit_batch", "emit_batch_bytes"], events)
}

fn call<'a>([for_json, for_bytes]: [&'static str; 2], events: &'a [Event]) -> Call<'a> {
    // JSON is also bytes, but bytes need not be JSON.
    let with_bytes = events.iter().any(|event| matches!(event.payload, Payload::Bytes(_)));
    let mut call;
    if with_bytes {
        call = Call::new(for_bytes);
        let payloads = events.iter().map(|event| event.payload.bytes()).collect();
        call.argument("payloads", "bytea[]", Value::BytesOfMany(payloads));
    } else {
        call = Call::new(for_json);
        let payloads = events.iter().map(|event| event.payload.json().map(JsonText));
        call.argument("payloads", "json[]", Value::Jsons(payloads.collect()));
    }
    let mut texts = |name, types, text: &dyn Fn(&'a Event) -> Option<Cow<'a, str>>| {
        let values: Vec<_> = events.iter().map(text).collect();
        if values.iter().any(Option::is_some) {
            call.argument(name, types, Value::Texts(values));
        }
    };
    fn borrowed(text: &Option<String>) -> Option<Cow<'_, str>> {
        text.as_deref().map(Cow::Borrowed)
    }
    // Events without a trace of their own get that of the call.
    let trace = trace::current();
    texts("topics", "text[]", &|event| Some(Cow::Borrowed(event.topic())));
    texts("idempotency_keys", "text[]", &|event| borrowed(&event.idempotency_key));
    texts("ordering_keys", "text[]", &|event| borrowed(&event.ordering_key));
    texts("tenants", "text[]", &|event| borrowed(&event.tenant));
    texts("headers", "text[]::json[]", &|event| event.headers_json().map(Cow::Owned));
    texts("traceparents", "text[]", &|event| {
        borrowed(&event.traceparent).or_else(|| trace.clone().map(Cow::Owned))
    });
    texts("types", "text[]", &|event| borrowed(&event.event_type));
    texts("content_types", "text[]", &|event| borrowed(&event.content_type));
    let partitions: Vec<_> = events.iter().map(|event| event.partition).collect();
    if partitions.iter().any(Option::is_some) {
        call.argument("partitions", "int[]", Value::Ints(partitions));
    }
    call
}
