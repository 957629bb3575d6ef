//! What the embedded broker can't simulate: missing topics, and many events.

mod running_relay;

use std::time::{Duration, Instant};

use crate::harness::parked_events::{
    BINARY, MARKER, ParkedEvent, assert_contains_all, count, insert_all, run_command, states,
};
use testkit::fixture::Fixture;

const MANY: i64 = 100_000;

#[test]
fn an_event_that_fails_again_stays_dead_with_the_new_reason() {
    let mut fixture = Fixture::new(BINARY, "again");
    let topic = fixture.create_topic("t", 1, &[]);
    let missing = fixture.topic("missing");
    let rows = [
        ParkedEvent { reason: "too-large", ..ParkedEvent::keyed(&missing, 1, "k") },
        ParkedEvent::keyed(&missing, 2, "k"),
        ParkedEvent::dead(&topic, 3),
    ];
    insert_all(&fixture, &rows);
    let text = run_command(&fixture, &["replay", "--all"], 1);
    let expect = ["replayed 1 of 3", "failed again: 1", "topic-missing", "1 skipped: an earlier"];
    assert_contains_all(&text, &expect);
    assert_eq!(states(&fixture), ["1 dead 1", "2 dead 0", "3 delivered 1"]);
    let sql = "SELECT reason, last_error FROM postrider.undelivered ORDER BY ordinal";
    let rows = fixture.client().query(sql, &[]).unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "topic-missing");
    let error: &str = rows[0].get(1);
    assert!(error != "it was refused" && !error.contains(MARKER), "{error}");
    let sql = "SELECT result || ' ' || events FROM postrider.replayed ORDER BY 1";
    let counted: Vec<String> =
        fixture.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(counted, ["failure 1", "success 1"]);
    // And once the topic exists:
    fixture.create_topic("missing", 1, &[]);
    run_command(&fixture, &["replay", "--all"], 0);
    assert_eq!(states(&fixture), ["1 delivered 2", "2 delivered 1", "3 delivered 1"]);
}

/// With compression, the topic's limit is meaningless: only the broker decides what is too large.
#[test]
fn events_waiting_for_a_refused_one_are_skipped_unless_overtaking_is_allowed() {
    let mut fixture = Fixture::new(BINARY, "behind");
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_COMPRESSION_TYPE", "zstd");
    let topic = fixture.create_topic("t", 1, &[("max.message.bytes", "2000")]);
    let noise: Vec<u8> = (0..5000).map(|_| rand::random()).collect();
    let rows = [
        ParkedEvent { value: Some(noise), ..ParkedEvent::keyed(&topic, 1, "k") },
        ParkedEvent::keyed(&topic, 2, "k"),
        ParkedEvent::keyed(&topic, 3, "k"),
        ParkedEvent::keyed(&topic, 4, "other"),
    ];
    insert_all(&fixture, &rows);
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(
        &text,
        &["replayed 1 of 4", "failed again: 1", "too-large", "2 skipped: an earlier"],
    );
    assert_eq!(states(&fixture), ["1 dead 1", "2 dead 0", "3 dead 0", "4 delivered 1"]);
    let text = run_command(&fixture, &["replay", "--all", "--allow-reorder"], 1);
    assert_contains_all(&text, &["replayed 2 of 3", "failed again: 1"]);
    assert_eq!(states(&fixture), ["1 dead 2", "2 delivered 1", "3 delivered 1", "4 delivered 1"]);
}

/// Of 350 bytes, every second one with one of a hundred ordering keys.
#[test]
fn a_hundred_thousand_events_are_replayed() {
    let mut fixture = Fixture::new(BINARY, "many");
    let topic = fixture.create_topic("t", 6, &[]);
    let sql = "INSERT INTO postrider.undelivered \
        (slot, source_table, row_id, ordering_key, commit_lsn, ordinal, topic, key, value, \
         value_bytes, headers, \"timestamp\", form, status, reason) \
      SELECT $1, 'public.outbox', n::text, CASE WHEN n % 2 = 0 THEN 'k' || n % 100 END, '0/100', \
         n, $2, convert_to('k' || n % 100, 'UTF8'), convert_to(repeat('x', 350), 'UTF8'), 350, \
         json_build_array(json_build_array('id', n::text), \
                          json_build_array('idempotency-key', 'i-' || n)), \
         now(), 'whole', 'dead', 'topic-missing' FROM generate_series(1, $3::bigint) n";
    fixture.client().execute(sql, &[&fixture.slot(), &topic, &MANY]).unwrap();
    let began = Instant::now();
    let text = run_command(&fixture, &["replay", "--all"], 0);
    let took = began.elapsed();
    assert_contains_all(&text, &["replayed 100000 of 100000"]);
    assert_eq!(count(&fixture, "delivered"), MANY);
    assert_eq!(fixture.consumer().end_offsets(&topic).iter().sum::<i64>(), MANY);
    assert!(took < Duration::from_secs(40), "it took {took:?}");
    eprintln!("replayed {} events/s", (MANY as f64 / took.as_secs_f64()) as u64);
}
