//! A payload inside JSON: as JSON if it is JSON, as a string if it is text, else in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;

use crate::event::{Content, Event};
use crate::row::{Column, RowFault};

/// The media type of JSON payloads whose writers named none.
pub(super) const JSON: &str = "application/json";

/// How a payload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data<'a> {
    /// As it is.
    Json(&'a str),
    /// As a JSON string.
    Text(&'a str),
    /// In base64, as a JSON string.
    Bytes(&'a [u8]),
}

impl<'a> Data<'a> {
    /// By the type of its column, and for what that leaves open by the event's content type: it
    /// never depends on the value alone, except for events without a table and content type.
    pub(super) fn of(event: &Event<'_>, payload: &'a [u8]) -> Result<Self, RowFault> {
        let says_json = event.content_type.as_deref().map(is_json);
        match (event.content, says_json) {
            // The database has checked it.
            (Content::Json, _) => Ok(Data::Json(utf8(payload)?)),
            (Content::Text | Content::Bytes | Content::Unknown, Some(true)) => {
                let json = utf8(payload)?;
                if is_valid(json) {
                    Ok(Data::Json(json))
                } else {
                    let why = "it is not JSON, although the event's content type says so";
                    Err(RowFault::NotEncodable { column: Column::Payload, why })
                }
            }
            (Content::Text, _) => Ok(Data::Text(utf8(payload)?)),
            (Content::Bytes | Content::Unknown, Some(false)) | (Content::Bytes, None) => {
                Ok(Data::Bytes(payload))
            }
            (Content::Unknown, None) => Ok(match std::str::from_utf8(payload) {
                Ok(json) if is_valid(json) => Data::Json(json),
                _ => Data::Bytes(payload),
            }),
        }
    }

    /// Whether it is JSON itself.
    pub(super) fn is_json(self) -> bool {
        matches!(self, Data::Json(_))
    }

    /// Writes the value as JSON.
    pub(super) fn write(self, json: &mut Vec<u8>) {
        match self {
            Data::Json(text) => json.extend_from_slice(text.as_bytes()),
            Data::Text(text) => write_string(json, text),
            Data::Bytes(bytes) => {
                json.push(b'"');
                json.extend_from_slice(STANDARD.encode(bytes).as_bytes());
                json.push(b'"');
            }
        }
    }
}

/// `application/json`, `text/json`, and whatever ends in `+json`.
fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let is = |name: &str| media_type.eq_ignore_ascii_case(name);
    let suffix = media_type.rsplit_once('+').map_or("", |(_, suffix)| suffix);
    is(JSON) || is("text/json") || suffix.eq_ignore_ascii_case("json")
}

fn is_valid(json: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(json).is_ok()
}

fn utf8(payload: &[u8]) -> Result<&str, RowFault> {
    std::str::from_utf8(payload).map_err(|_| RowFault::NotText(Column::Payload))
}

/// Adds `"name":` to an object, with a comma unless it is the first member.
pub(super) fn write_name(json: &mut Vec<u8>, name: &str) {
    if json.last() != Some(&b'{') {
        json.push(b',');
    }
    write_string(json, name);
    json.push(b':');
}

/// Adds a member whose value is a string, if there is one.
pub(super) fn write_text(json: &mut Vec<u8>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        write_name(json, name);
        write_string(json, text);
    }
}

fn write_string(json: &mut Vec<u8>, text: &str) {
    // Writing a string to memory can't fail.
    drop(serde_json::to_writer(json, text));
}
