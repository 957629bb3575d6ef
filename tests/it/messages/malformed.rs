//! Messages with our prefix that are not events: parked as rejected, and the rest is published.

use super::content::{Values, content, event};
use super::{SOON, emit, fixture};
use crate::harness::halt::wait_halt;
use crate::harness::metrics::{metric, metric_sum};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

pub const SECRET: &[u8] = b"s3cret-m4rker";

#[track_caller]
pub fn forge(fixture: &Fixture, content: &[u8]) {
    let sql = "SELECT pg_logical_emit_message(true, 'postrider', $1::bytea)";
    fixture.client().execute(sql, &[&content]).unwrap();
}

/// Arbitrary bytes, and each kind of mistake.
fn garbage(topic: &str) -> Vec<Vec<u8>> {
    let good = event("good", topic, SECRET);
    let mut all = vec![
        Vec::new(),
        SECRET.to_vec(),
        vec![0xFF; 1000],
        vec![1],
        vec![1, 0x7F, 0xFF],
        vec![1, 0xFF, 0xFF],
        [&[3], &good[1..]].concat(),
        [&good, SECRET].concat(),
        // An impossible length.
        [&good[..4], &[0x7F, 0xFF, 0xFF, 0xFF]].concat(),
        [&good[..4], &[0xFF, 0xFF, 0xFF, 0xFF]].concat(),
    ];
    all.extend((1..good.len()).step_by(7).map(|end| good[..end].to_vec()));
    all
}

#[track_caller]
pub fn wait_parked(fixture: &Fixture, count: usize) {
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE status = 'dead'
        AND form = 'fragment' AND source_table = 'messages'";
    let mut client = fixture.client();
    let count = i64::try_from(count).unwrap();
    wait_until("malformed messages to be parked", SOON, || {
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == count
    });
}

#[test]
fn malformed_messages_are_dead_and_the_rest_is_published() {
    let mut fixture = fixture("message_malformed");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let garbage = garbage(&topic);
    let mut good = vec![emit(&fixture, &topic, Some("k"))];
    for content in &garbage {
        forge(&fixture, content);
        good.push(emit(&fixture, &topic, Some("k")));
    }
    let records = fixture.consumer().read_n(good.len(), SOON);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, good);
    wait_parked(&fixture, garbage.len());
    let sql = "SELECT DISTINCT reason, topic, row_id IS NULL FROM postrider.undelivered";
    let rows = fixture.client().query(sql, &[]).unwrap();
    let found: Vec<(String, String, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(found, [("malformed".to_owned(), String::new(), true)]);
    // Byte for byte, for inspection, and nowhere else.
    let sql = "SELECT value FROM postrider.undelivered ORDER BY commit_lsn, change_lsn, ordinal";
    let kept: Vec<Vec<u8>> =
        fixture.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(kept, garbage);
    let sql = "SELECT string_agg(last_error, ' ') FROM postrider.undelivered";
    let last_error: String = fixture.client().query_one(sql, &[]).unwrap().get(0);
    let secret = std::str::from_utf8(SECRET).unwrap();
    assert!(
        !last_error.contains(secret) && !fixture.relay().log().contains(secret),
        "{last_error}"
    );
    assert_eq!(metric_sum(fixture.relay(), "postrider_restarts_total"), 0.0);
    let series = "outbox_dead_total{table=\"messages\",topic=\"(none)\"}";
    assert_eq!(metric(fixture.relay(), series), Some(garbage.len() as f64));
}

#[test]
fn impossible_values_are_faults_as_in_any_row() {
    let mut fixture = fixture("message_values");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut count = 0;
    let mut check = |place: usize, value: Option<&[u8]>| {
        let mut values: Values<'_> = [None; 11];
        values[1] = Some(topic.as_bytes());
        values[place] = value;
        forge(&fixture, &content(&values));
        count += 1;
    };
    check(1, None);
    check(1, Some(b"not a topic!"));
    check(0, Some(&[0xFF]));
    check(8, Some(b"-1"));
    check(8, Some(b"seven"));
    check(9, Some(b"[1]"));
    check(9, Some(b"{"));
    check(4, Some(&[0xC0, 0x80]));
    let last = emit(&fixture, &topic, None);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), last);
    wait_parked(&fixture, count);
    let sql = "SELECT array_agg(DISTINCT reason) FROM postrider.undelivered";
    let reasons: Vec<String> = fixture.client().query_one(sql, &[]).unwrap().get(0);
    let expect =
        ["bad-headers", "bad-partition", "column-null", "column-unreadable", "illegal-topic"];
    assert_eq!(reasons, expect);
}

#[test]
fn an_oversized_message_is_not_copied() {
    let mut fixture = fixture("message_too_large");
    let topic = fixture.create_topic("orders", 1, &[("max.message.bytes", "40000000")]);
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES", "40000000");
    fixture.start_relay().wait_ready(SOON);
    forge(&fixture, &event("large", &topic, &vec![b'x'; 17 << 20]));
    let last = emit(&fixture, &topic, None);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), last);
    wait_parked(&fixture, 1);
    let sql = "SELECT value IS NULL AND value_bytes > 17 << 20 FROM postrider.undelivered";
    assert!(fixture.client().query_one(sql, &[]).unwrap().get::<_, bool>(0));
}

#[test]
fn many_malformed_messages_do_not_stop_the_others() {
    let mut fixture = fixture("message_flood");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_EVENTS", "10");
    let sql =
        "SELECT pg_logical_emit_message(true, 'postrider', 'flood') FROM generate_series(1, 500)";
    fixture.client().batch_execute(sql).unwrap();
    let last = emit(&fixture, &topic, None);
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), last);
    wait_parked(&fixture, 500);
    let log = fixture.relay().log();
    assert!(!log.contains("circuit breaker"), "{log}");
}

#[test]
fn with_halt_a_malformed_message_stops_the_relay_like_any_other_event() {
    let mut fixture = fixture("message_halt").halting();
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut client = fixture.client();
    let before: String =
        client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).unwrap().get(0);
    forge(&fixture, SECRET);
    emit(&fixture, &topic, None);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    assert!(log.contains("without a table") && log.contains("its version is 115"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
    let sql = "SELECT confirmed_flush_lsn <= $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    let held: bool = client.query_one(sql, &[&fixture.slot(), &before]).unwrap().get(0);
    assert!(held, "the position has passed it");
    // Parking it lets the relay continue.
    fixture.unset("POSTRIDER_UNDELIVERED_ORDER");
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(1, SOON);
    wait_parked(&fixture, 1);
}

/// A pack as large as Postgres sends: anybody can write it, and memory must suffice.
#[test]
fn a_pack_that_fills_the_memory_is_not_copied() {
    let mut fixture = fixture("message_huge_pack");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "SELECT pg_logical_emit_message(true, 'postrider',
        '\\x02'::bytea || convert_to(repeat('x', 200000000), 'UTF8'))";
    fixture.client().execute(sql, &[]).unwrap();
    let last = emit(&fixture, &topic, None);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), last);
    wait_parked(&fixture, 1);
    let peak = fixture.relay().peak_rss_bytes();
    assert!(peak < 256 << 20, "{} MiB", peak >> 20);
}
