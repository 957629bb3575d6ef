//! `format.value = protobuf`, read as a consumer would read it: with the published contract.

use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use super::{BINARY, SOON};
use testkit::consumer::Received;
use testkit::fixture::Fixture;

#[test]
fn an_event_is_an_envelope_and_a_tombstone_stays_one() {
    let mut fixture = Fixture::new(BINARY, "protobuf");
    fixture.set("POSTRIDER_FORMAT_VALUE", "protobuf");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut client = fixture.client();
    let insert = "insert into outbox (topic, payload, idempotency_key, ordering_key, type, \
                                      content_type, tenant, traceparent) \
                  values ($1, '{ \"a\": 1 }', 'i-1', 'k', 't', 'c', 'me', '00-1'), \
                         ($1, '2', 'i-2', null, null, null, null, null), \
                         ($1, null, 'i-3', null, null, null, null, null) returning id";
    let rows = client.query(insert, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(3, SOON);

    let full = envelope(&records[0]);
    let id = rows[0].get::<_, i64>(0).to_string();
    for (name, expected) in [
        ("id", id.as_str()),
        ("idempotency_key", "i-1"),
        ("ordering_key", "k"),
        ("type", "t"),
        ("content_type", "c"),
        ("tenant", "me"),
        ("traceparent", "00-1"),
        ("table", "public.outbox"),
    ] {
        assert_eq!(field(&full, name), Value::String(expected.to_owned()), "{name}");
    }
    let payload = Value::Bytes(b"{ \"a\": 1 }".as_slice().into());
    assert_eq!(field(&full, "payload"), payload);
    assert_eq!(commit_ms(&full), records[0].timestamp_ms);

    let sparse = envelope(&records[1]);
    for name in ["ordering_key", "type", "content_type", "tenant", "traceparent"] {
        assert!(!sparse.has_field_by_name(name), "{name} was NULL");
    }
    let (first, second) = (position(&full), position(&sparse));
    assert_eq!((first.1, second.1), (0, 1), "the order inside the transaction");
    assert_eq!(first.0, second.0, "one transaction, one commit");
    assert_commit_is_in_the_past(&mut client, first.0);

    assert_eq!(records[2].value, None);
    assert_eq!(records[2].header("idempotency-key"), Some("i-3"));
}

#[track_caller]
fn envelope(record: &Received) -> DynamicMessage {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let files = protox::compile(["postrider/v1/envelope.proto"], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let descriptor = pool.get_message_by_name("postrider.v1.Envelope").unwrap();
    let value = record.value.as_deref().expect("a record without a value");
    DynamicMessage::decode(descriptor, value).unwrap()
}

#[track_caller]
fn field(message: &DynamicMessage, name: &str) -> Value {
    let value = message.get_field_by_name(name);
    value.unwrap_or_else(|| panic!("no field {name}")).into_owned()
}

#[track_caller]
fn inner(message: &DynamicMessage, outer: &str, name: &str) -> Value {
    field(field(message, outer).as_message().unwrap(), name)
}

fn position(envelope: &DynamicMessage) -> (u64, u64) {
    let number = |name| inner(envelope, "position", name).as_u64().unwrap();
    (number("commit_lsn"), number("ordinal"))
}

fn commit_ms(envelope: &DynamicMessage) -> Option<i64> {
    let seconds = inner(envelope, "committed_at", "seconds").as_i64()?;
    let nanos = inner(envelope, "committed_at", "nanos").as_i32()?;
    Some(seconds * 1000 + i64::from(nanos) / 1_000_000)
}

// The number is a real position of this server's log: after its beginning and not beyond its end.
#[track_caller]
fn assert_commit_is_in_the_past(client: &mut postgres::Client, commit_lsn: u64) {
    let end = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    let end: i64 = client.query_one(end, &[]).unwrap().get(0);
    let end = u64::try_from(end).unwrap();
    assert!((1..=end).contains(&commit_lsn), "{commit_lsn} of {end}");
}
