//! The code and the public contract of the protobuf envelope, without protoc.

use std::borrow::Cow;

use postrider_core::envelope::protobuf::envelope;
use postrider_core::event::{Content, Event};
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::PgTime;
use postrider_core::route::Key;
use postrider_core::transaction;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

#[test]
fn the_code_matches_the_contract() {
    let descriptors = protox::compile(
        ["postrider/v1/envelope.proto"],
        [concat!(env!("CARGO_MANIFEST_DIR"), "/proto")],
    )
    .unwrap();
    let pool = prost_reflect::DescriptorPool::from_file_descriptor_set(descriptors).unwrap();
    let contract = pool.get_message_by_name("postrider.v1.Envelope").unwrap();
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
        key: Some(Key { text: Cow::Borrowed("3"), is_unique: false }),
        partition_by: None,
        content: Content::Json,
        placed: Vec::new(),
        cloud: None,
        schema: None,
        converted: None,
        payload: None,
        id: text("1"),
        idempotency_key: text("2"),
        event_type: text("4"),
        content_type: text("5"),
        tenant: text("6"),
        partition: None,
        headers: None,
        traceparent: text("7"),
    };
    let bytes = envelope(&event, "public.outbox", b"payload");
    let read = DynamicMessage::decode(contract, bytes.as_slice()).unwrap();
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
