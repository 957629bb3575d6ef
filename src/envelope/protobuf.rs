//! `proto/postrider/v1/envelope.proto` in Rust. A test compares it with the file, so building needs
//! no protoc.

use prost::Message;

use crate::outbox::Event;

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

/// The envelope of an event with this payload.
pub(super) fn encode(event: &Event<'_>, table: &str, payload: &[u8]) -> Vec<u8> {
    let owned = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let micros = event.commit_time.unix_micros();
    Envelope {
        id: owned(&event.id).unwrap_or_default(),
        idempotency_key: owned(&event.idempotency_key).unwrap_or_default(),
        ordering_key: owned(&event.ordering_key),
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use prost_reflect::{DynamicMessage, ReflectMessage, Value};

    use super::*;
    use crate::lsn::Lsn;
    use crate::pgoutput::PgTime;
    use crate::transaction;

    #[test]
    fn the_code_and_the_contract_say_the_same() {
        let descriptors = protox::compile(
            ["postrider/v1/envelope.proto"],
            [concat!(env!("CARGO_MANIFEST_DIR"), "/proto")],
        )
        .unwrap();
        let pool = prost_reflect::DescriptorPool::from_file_descriptor_set(descriptors).unwrap();
        let envelope = pool.get_message_by_name("postrider.v1.Envelope").unwrap();
        let text = |text| Some(Cow::Borrowed(text));
        let event = Event {
            table: 0,
            position: transaction::Position {
                commit_lsn: Lsn::new(77),
                change_lsn: Lsn::new(70),
                ordinal: 1,
                in_transaction: 3,
            },
            commit_time: PgTime::from_unix_micros(1_800_000_000_000_001),
            topic: Cow::Borrowed("t"),
            payload: None,
            id: text("1"),
            idempotency_key: text("2"),
            ordering_key: text("3"),
            event_type: text("4"),
            content_type: text("5"),
            tenant: text("6"),
            partition: None,
            headers: None,
            traceparent: text("7"),
        };
        let bytes = encode(&event, "public.outbox", b"payload");
        let read = DynamicMessage::decode(envelope, bytes.as_slice()).unwrap();
        assert_eq!(read.unknown_fields().count(), 0, "a field the contract does not have");
        let field = |name: &str| read.get_field_by_name(name).unwrap().into_owned();
        for (name, value) in [
            ("id", "1"),
            ("idempotency_key", "2"),
            ("ordering_key", "3"),
            ("type", "4"),
            ("content_type", "5"),
            ("tenant", "6"),
            ("traceparent", "7"),
            ("table", "public.outbox"),
        ] {
            assert_eq!(field(name), Value::String(value.to_owned()), "{name}");
        }
        assert_eq!(field("payload"), Value::Bytes(bytes::Bytes::from_static(b"payload")));
        let inner = |message: &str, name: &str| {
            field(message).as_message().unwrap().get_field_by_name(name).unwrap().into_owned()
        };
        assert_eq!(inner("position", "commit_lsn"), Value::U64(77));
        assert_eq!(inner("position", "ordinal"), Value::U64(3));
        assert_eq!(inner("committed_at", "seconds"), Value::I64(1_800_000_000));
        assert_eq!(inner("committed_at", "nanos"), Value::I32(1000));
        assert_eq!(read.fields().count(), read.descriptor().fields().count());
    }
}
