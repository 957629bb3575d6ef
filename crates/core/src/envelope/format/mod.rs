//! The value of a record, one file per format.

mod cloudevents;
mod cloudevents_binary;
mod cloudevents_structured;
mod data;
mod json;
pub mod protobuf;
mod raw;
mod schema;

use std::borrow::Cow;

use super::Header;
use crate::debezium::Converted;
use crate::event::{Event, TableRules};
use crate::format::ValueFormat;
use crate::route::DefaultHeader;
use crate::row::RowFault;

pub(super) use schema::frame;
pub use schema::{Schema, SchemaNeed};

/// An event's value, and what its headers say about that.
pub(super) struct Encoded<'a> {
    /// None is a tombstone.
    pub(super) value: Option<Cow<'a, [u8]>>,
    /// What the value is.
    pub(super) content_type: Option<Cow<'a, str>>,
    /// Headers of the format.
    pub(super) headers: Vec<Header<'a>>,
}

/// Encodes an event.
pub(super) fn encode<'a>(
    event: &'a Event<'_>,
    rules: &TableRules,
) -> Result<Encoded<'a>, RowFault> {
    match rules.format.value {
        ValueFormat::Raw => Ok(raw::encode(event)),
        ValueFormat::Json => json::encode(event, &rules.name),
        ValueFormat::Protobuf => Ok(protobuf::encode(event, &rules.name)),
        ValueFormat::CloudEventsBinary => cloudevents_binary::encode(event),
        ValueFormat::CloudEventsStructured => cloudevents_structured::encode(event),
    }
}

/// What Debezium's Event Router has made of an event.
pub(super) fn converted<'a>(converted: &'a Converted<'_>) -> Encoded<'a> {
    Encoded {
        value: converted.value.as_deref().map(Cow::Borrowed),
        content_type: None,
        headers: converted.headers.iter().map(header).collect(),
    }
}

fn header<'a>((name, value): &'a (Cow<'_, str>, Option<Cow<'_, [u8]>>)) -> Header<'a> {
    Header { name: Cow::Borrowed(name), value: value.as_deref().map(Cow::Borrowed) }
}

/// Whether the format says by itself what this header would say.
pub(super) fn replaces(format: ValueFormat, header: DefaultHeader) -> bool {
    use DefaultHeader::{CommittedAt, Id, IdempotencyKey, Tenant, Type};
    format.is_cloud_event() && matches!(header, Id | IdempotencyKey | Type | Tenant | CommittedAt)
}

#[cfg(test)]
mod tests;
