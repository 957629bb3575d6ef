//! CloudEvents 1.0 in the structured mode of the Kafka binding: the value is the event as JSON.

use std::borrow::Cow;

use super::cloudevents::{attributes, json_name};
use super::data::{Data, JSON, write_name, write_text};
use super::{Encoded, cloudevents_binary};
use crate::event::Event;
use crate::row::RowFault;

/// The media type of the JSON format.
const CONTENT_TYPE: &str = "application/cloudevents+json; charset=UTF-8";
/// What the attributes take in addition to the payload, roughly.
const ATTRIBUTES_BYTES: usize = 512;

pub(super) fn encode<'a>(event: &'a Event<'_>) -> Result<Encoded<'a>, RowFault> {
    // A tombstone must have no value, so its attributes can only be headers.
    let Some(payload) = event.payload.as_deref() else {
        return cloudevents_binary::encode(event);
    };
    let data = Data::of(event, payload)?;
    let mut json = Vec::with_capacity(payload.len() + ATTRIBUTES_BYTES);
    json.push(b'{');
    for (name, value) in attributes(event)? {
        write_text(&mut json, json_name(name), Some(&value));
    }
    let content_type = event.content_type.as_deref().or(data.is_json().then_some(JSON));
    write_text(&mut json, "datacontenttype", content_type);
    let is_base64 = matches!(data, Data::Bytes(_));
    write_name(&mut json, if is_base64 { "data_base64" } else { "data" });
    data.write(&mut json);
    json.push(b'}');
    Ok(Encoded {
        value: Some(Cow::Owned(json)),
        content_type: Some(Cow::Borrowed(CONTENT_TYPE)),
        headers: Vec::new(),
    })
}
