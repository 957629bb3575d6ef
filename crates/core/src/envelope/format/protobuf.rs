//! `proto/postrider/v1/envelope.proto` in Rust. A test compares it with the file, so building needs
//! no protoc.

use std::borrow::Cow;

use prost::Message;

use super::Encoded;
use crate::event::Event;

/// The media type of the envelope.
const CONTENT_TYPE: &str = "application/x-protobuf";

#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    idempotency_key: String,
    #[prost(string, optional, tag = "3")]
    ordering_key: Option<String>,
    #[prost(string, optional, tag = "4")]
    r#type: Option<String>,
    #[prost(string, optional, tag = "5")]
    content_type: Option<String>,
    #[prost(string, optional, tag = "6")]
    tenant: Option<String>,
    #[prost(string, optional, tag = "7")]
    traceparent: Option<String>,
    #[prost(message, optional, tag = "8")]
    committed_at: Option<prost_types::Timestamp>,
    #[prost(message, optional, tag = "9")]
    position: Option<Position>,
    #[prost(string, tag = "10")]
    table: String,
    #[prost(bytes = "vec", tag = "11")]
    payload: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Position {
    #[prost(uint64, tag = "1")]
    commit_lsn: u64,
    #[prost(uint64, tag = "2")]
    ordinal: u64,
}

/// The envelope of an event; a tombstone has none.
pub(super) fn encode<'a>(event: &'a Event<'_>, table: &str) -> Encoded<'a> {
    let value = event.payload.as_deref().map(|payload| Cow::Owned(envelope(event, table, payload)));
    let content_type = value.is_some().then_some(Cow::Borrowed(CONTENT_TYPE));
    Encoded { value, content_type, headers: Vec::new() }
}

/// The envelope of an event with this payload.
pub fn envelope(event: &Event<'_>, table: &str, payload: &[u8]) -> Vec<u8> {
    let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let micros = event.commit_time.unix_micros();
    Envelope {
        id: owned(&event.id).unwrap_or_default(),
        idempotency_key: owned(&event.idempotency_key).unwrap_or_default(),
        ordering_key: event.ordering_key().map(str::to_owned),
        r#type: owned(&event.event_type),
        content_type: owned(&event.content_type),
        tenant: owned(&event.tenant),
        traceparent: owned(&event.traceparent),
        committed_at: Some(prost_types::Timestamp {
            seconds: micros.div_euclid(1_000_000),
            nanos: (micros.rem_euclid(1_000_000) * 1000) as i32,
        }),
        position: Some(Position {
            commit_lsn: event.position.commit_lsn.bytes(),
            ordinal: event.position.in_transaction,
        }),
        table: table.to_owned(),
        payload: payload.to_vec(),
    }
    .encode_to_vec()
}
