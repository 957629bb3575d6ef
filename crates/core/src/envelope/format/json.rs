//! A JSON object with the event in it, for consumers that want to see everything in the value.

use std::borrow::Cow;
use std::io::Write;

use serde_json::value::RawValue;

use super::Encoded;
use super::data::{Data, JSON, write_name, write_text};
use crate::envelope::rfc3339;
use crate::event::Event;
use crate::row::RowFault;

/// What the object takes in addition to the payload, roughly.
const OTHERS_BYTES: usize = 512;

pub(super) fn encode<'a>(event: &'a Event<'_>, table: &str) -> Result<Encoded<'a>, RowFault> {
    let Some(payload) = event.payload.as_deref() else {
        return Ok(Encoded { value: None, content_type: None, headers: Vec::new() });
    };
    let data = Data::of(event, payload)?;
    let mut json = Vec::with_capacity(payload.len() + OTHERS_BYTES);
    json.push(b'{');
    write_text(&mut json, "id", event.id.as_deref());
    write_text(&mut json, "idempotency_key", event.idempotency_key.as_deref());
    write_text(&mut json, "ordering_key", event.ordering_key());
    write_text(&mut json, "type", event.event_type.as_deref());
    write_text(&mut json, "content_type", event.content_type.as_deref());
    write_text(&mut json, "tenant", event.tenant.as_deref());
    write_text(&mut json, "traceparent", event.traceparent.as_deref());
    write_text(&mut json, "committed_at", Some(&rfc3339(event.commit_time.unix_micros())));
    write_text(&mut json, "table", Some(table));
    let position = event.position;
    write_name(&mut json, "position");
    // Writing to memory can't fail.
    drop(write!(
        json,
        r#"{{"commit_lsn":"{}","ordinal":{}}}"#,
        position.commit_lsn, position.in_transaction
    ));
    if let Some(headers) = event.headers.as_deref() {
        let headers = std::str::from_utf8(headers).ok();
        let headers: Option<&RawValue> = headers.and_then(|it| serde_json::from_str(it).ok());
        let headers = headers.ok_or(RowFault::HeadersNotObject)?;
        write_name(&mut json, "headers");
        json.extend_from_slice(headers.get().as_bytes());
    }
    let is_base64 = matches!(data, Data::Bytes(_));
    write_name(&mut json, if is_base64 { "payload_base64" } else { "payload" });
    data.write(&mut json);
    json.push(b'}');
    Ok(Encoded {
        value: Some(Cow::Owned(json)),
        content_type: Some(Cow::Borrowed(JSON)),
        headers: Vec::new(),
    })
}
