//! Messages that can't be published wait in the side table, in order with rows of their key.

use super::super::order::write;
use super::super::{SOON, emit_batch, fixture};
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[track_caller]
fn wait_status(fixture: &Fixture, status: &str, count: i64) {
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE status = $1";
    let mut client = fixture.client();
    wait_until(&format!("{count} events to be {status}"), SOON, || {
        client.query_one(sql, &[&status]).unwrap().get::<_, i64>(0) == count
    });
}

#[test]
fn events_wait_in_order_for_a_missing_topic() {
    let mut fixture = fixture("message_missing");
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let mut expected = Expected::default();
    for number in 0..40 {
        let mut transaction = client.transaction().unwrap();
        for key in ["a", "b"] {
            let id = write(&mut transaction, &missing, key, number % 2 == 0);
            expected.push(&missing, key, id);
        }
        if number % 4 == 0 {
            for id in emit_batch(&mut transaction, &missing, "a", 3) {
                expected.push(&missing, "a", id);
            }
        }
        transaction.commit().unwrap();
    }
    wait_status(&fixture, "pending", 110);
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE source_table = 'messages'
        AND form = 'whole' AND row_id IS NOT NULL";
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 70);
    fixture.create_topic("missing", 3, &[]);
    wait_status(&fixture, "delivered", 110);
    let records = Consumer::new(fixture.broker(), &[&missing]).read_n(110, SOON);
    expected.verdict(&records).assert_exact();
}

#[test]
fn dead_messages_are_listed_and_replayed() {
    let mut fixture = fixture("message_replay");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    let topic = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let sql = "SELECT postrider.emit($1, '{\"a\" : 1}', 'i-1', tenant => 'i',
        headers => '{\"x\": \"y\"}', \"partition\" => 1)";
    let id: String = client.query_one(sql, &[&topic]).unwrap().get(0);
    wait_status(&fixture, "dead", 1);
    let list = fixture.run(&["dead", "list", "--table", "messages"]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("messages") && list.contains("topic-missing"), "{list}");
    let other = fixture.run(&["dead", "list", "--table", "public.messages"]);
    assert!(!String::from_utf8(other.stdout).unwrap().contains("topic-missing"));

    fixture.create_topic("missing", 2, &[]);
    let replay = fixture.run(&["replay", "--table", "messages"]);
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
    let records = fixture.consumer().read_n(1, SOON);
    let record = &records[0];
    assert_eq!((record.id(), record.partition, record.key_text()), (&*id, 1, Some("i-1")));
    assert_eq!(record.value_text(), Some("{\"a\" : 1}"));
    assert_eq!((record.header("x"), record.header("replayed")), (Some("y"), Some("true")));
}

#[test]
fn the_largest_event_is_parked_whole_even_in_an_envelope() {
    let mut fixture = fixture("message_largest");
    fixture.set("POSTRIDER_FORMAT_VALUE", "protobuf");
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES", "40000000");
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    // The content has 16 MiB: version and count, seven NULLs, the kind and length of four values, and
    // three of these.
    let rest = 3 + 7 + 5 * 4 + 36 * 2 + missing.len();
    let sql = "SELECT postrider.emit_bytes($1, convert_to(repeat('x', $2), 'UTF8'))";
    let payload = i32::try_from((16 << 20) - rest).unwrap();
    let id: String = fixture.client().query_one(sql, &[&missing, &payload]).unwrap().get(0);
    wait_status(&fixture, "pending", 1);
    let sql = "SELECT form = 'whole' AND value_bytes > $1::bigint FROM postrider.undelivered";
    let whole = fixture.client().query_one(sql, &[&i64::from(payload)]).unwrap();
    assert!(whole.get::<_, bool>(0));
    fixture.create_topic("missing", 1, &[("max.message.bytes", "40000000")]);
    wait_status(&fixture, "delivered", 1);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
}
