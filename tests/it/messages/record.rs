//! How the arguments of postrider.emit appear in a record.

use super::{SOON, fixture};
use crate::harness::metrics::metric;
use testkit::check::Expected;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[track_caller]
fn publish(fixture: &mut Fixture, sql: &str, count: usize) -> Vec<Received> {
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.client().batch_execute(&sql.replace("{topic}", &topic)).unwrap();
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(count, SOON)
}

#[track_caller]
fn find<'a>(records: &'a [Received], key: &str) -> &'a Received {
    records.iter().find(|record| record.key_text() == Some(key)).expect(key)
}

#[test]
fn every_argument_becomes_part_of_the_record() {
    let mut fixture = fixture("message_record");
    let records = publish(
        &mut fixture,
        r#"SELECT postrider.emit('{topic}', '{"a" : 1}', 'i-1', 'order', 'acme',
               '{"z": "größe", "a": 1.50}',
               '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'order.placed',
               'application/json', 2)"#,
        1,
    );
    let record = &records[0];
    assert_eq!((record.key_text(), record.partition), (Some("order"), 2));
    assert_eq!(record.value_text(), Some(r#"{"a" : 1}"#));
    let id = record.id().to_owned();
    let expect = [
        ("id", id.as_str()),
        ("idempotency-key", "i-1"),
        ("type", "order.placed"),
        ("content-type", "application/json"),
        ("tenant", "acme"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("z", "größe"),
        ("a", "1.50"),
    ];
    let headers: Vec<(&str, &str)> = record
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), std::str::from_utf8(value.as_ref().unwrap()).unwrap()))
        .collect();
    assert_eq!(headers, expect);
    let topic = fixture.topic("orders");
    let series = format!("outbox_published_total{{table=\"messages\",topic=\"{topic}\"}}");
    wait_until("the event to be counted", SOON, || metric(fixture.relay(), &series) == Some(1.0));
}

#[test]
fn the_id_is_returned_and_becomes_the_key() {
    let mut fixture = fixture("message_id");
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let sql = "SELECT postrider.emit($1, '{}', tenant => $2)";
    let mut emit = |tenant: Option<&str>| -> String {
        client.query_one(sql, &[&topic, &tenant]).unwrap().get(0)
    };
    let ids = [emit(None), emit(Some("acme"))];
    let records = fixture.consumer().read_n(2, SOON);
    let keys = [ids[0].clone(), format!("acme/{}", ids[1])];
    for (id, key) in ids.iter().zip(&keys) {
        let record = find(&records, key);
        assert_eq!((record.id(), record.header("idempotency-key")), (id.as_str(), Some(&**key)));
    }
}

#[test]
fn tombstones_and_bytes_are_published() {
    let mut fixture = fixture("message_bytes");
    let records = publish(
        &mut fixture,
        r"SELECT postrider.emit('{topic}', NULL, 'gone'), postrider.emit('{topic}', 'null', 'null'),
                 postrider.emit_bytes('{topic}', NULL, 'no bytes'),
                 postrider.emit_bytes('{topic}', '', 'empty'),
                 postrider.emit_bytes('{topic}', decode('00ff0180', 'hex'), 'bytes')",
        5,
    );
    assert_eq!(find(&records, "gone").value, None);
    assert_eq!(find(&records, "no bytes").value, None);
    assert_eq!(find(&records, "null").value_text(), Some("null"));
    assert_eq!(find(&records, "empty").value.as_deref(), Some(&[][..]));
    assert_eq!(find(&records, "bytes").value.as_deref(), Some(&[0, 0xFF, 1, 0x80][..]));
}

#[test]
fn the_format_is_the_same_as_for_tables() {
    let mut fixture = fixture("message_protobuf");
    fixture.set("POSTRIDER_FORMAT_VALUE", "protobuf");
    let records = publish(&mut fixture, "SELECT postrider.emit('{topic}', '\"body\"')", 1);
    let value = records[0].value.clone().unwrap();
    let holds = |text: &str| value.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(holds("\"body\"") && holds("messages") && holds(records[0].id()), "{value:?}");
}

/// A fixture whose database is not UTF-8.
#[track_caller]
pub fn latin1(name: &str) -> Fixture {
    let fixture = fixture(name);
    let database = fixture.database().to_owned();
    let mut admin = fixture.postgres().client("postgres");
    let slot = "SELECT pg_drop_replication_slot($1)";
    fixture.client().execute(slot, &[&fixture.slot()]).unwrap();
    admin.batch_execute(&format!("DROP DATABASE \"{database}\"")).unwrap();
    let create = format!(
        "CREATE DATABASE \"{database}\" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    );
    admin.batch_execute(&create).unwrap();
    fixture.migrate();
    fixture
}

#[test]
fn text_arrives_as_utf_8_whatever_the_encoding_of_the_database() {
    let mut fixture = latin1("message_latin1");
    let sql = r#"SELECT pg_logical_emit_message(true, 'größe', 'x');
        SELECT postrider.emit('{topic}', '"größe"', 'größe', headers => '{"größe": "größe"}')"#;
    let records = publish(&mut fixture, sql, 1);
    let record = &records[0];
    assert_eq!((record.key_text(), record.header("größe")), (Some("größe"), Some("größe")));
    assert_eq!(record.value_text(), Some("\"größe\""));
}

#[test]
fn a_large_event_arrives_whole() {
    let mut fixture = fixture("message_large");
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES", "20000000");
    let settings = [("max.message.bytes", "20000000")];
    let topic = fixture.create_topic("orders", 1, &settings);
    let sql = "SELECT postrider.emit_bytes($1, convert_to(repeat('x', 8000000), 'UTF8'),
        ordering_key => 'k')";
    let mut expected = Expected::default();
    let mut client = fixture.client();
    for _ in 0..3 {
        let id: String = client.query_one(sql, &[&topic]).unwrap().get(0);
        expected.push(&topic, "k", id);
    }
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(3, SOON);
    assert!(records.iter().all(|record| record.value.as_ref().unwrap().len() == 8_000_000));
    expected.verdict(&records).assert_exact();
}
