//! Messages that are not to be published: ignored and counted.

use super::{BINARY, SOON, emit, fixture};
use crate::harness::metrics::metric;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[test]
fn foreign_and_non_transactional_messages_are_counted_and_not_published() {
    let mut fixture = fixture("message_foreign");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let traffic = "
        CREATE FUNCTION ours(value text) RETURNS bytea LANGUAGE sql AS $$
            SELECT decode('01000b', 'hex') || postrider.message_text(value)
                || postrider.message_text('{topic}') || postrider.message_text(value)
                || repeat('n', 8)::bytea $$;
        SELECT pg_logical_emit_message(true, 'other', 'not ours');
        SELECT pg_logical_emit_message(true, '', 'nobody''s');
        SELECT pg_logical_emit_message(true, 'postrider2', ours('not quite ours'));
        SELECT pg_logical_emit_message(false, 'other', 'not ours');
        BEGIN;
        SELECT pg_logical_emit_message(true, 'postrider', ours('1'));
        SELECT pg_logical_emit_message(true, 'Postrider', ours('not ours either'));
        SELECT pg_logical_emit_message(false, 'postrider', ours('at once'));
        SELECT pg_logical_emit_message(true, 'postrider', ours('2'));
        COMMIT;
        BEGIN;
        SELECT pg_logical_emit_message(false, 'postrider', ours('of a transaction that never was'));
        SELECT pg_logical_emit_message(true, 'postrider', ours('rolled back'));
        ROLLBACK;
        SELECT pg_logical_emit_message(true, 'postrider', ours('3'))";
    fixture.client().batch_execute(&traffic.replace("{topic}", &topic)).unwrap();
    let records = fixture.consumer().read_n(3, SOON);
    let values: Vec<_> = records.iter().filter_map(Received::value_text).collect();
    assert_eq!(values, ["1", "2", "3"]);
    // The last event comes after all the others in the stream, so they are counted by now.
    for (kind, count) in [("foreign_message", 5.0), ("non_transactional_message", 2.0)] {
        let series = format!("postrider_ignored_messages_total{{kind=\"{kind}\"}}");
        assert_eq!(metric(fixture.relay(), &series), Some(count), "{kind}");
    }
    assert_eq!(fixture.consumer().end_offsets(&topic), [3]);
}

#[test]
fn a_relay_that_does_not_publish_messages_skips_them() {
    let mut fixture = Fixture::new(BINARY, "message_off");
    // They belong to another relay.
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    let other = format!("{}_other", fixture.slot());
    assert!(fixture.run(&["migrate", "--slot", &other]).status.success());
    fixture.unset("POSTRIDER_POSTGRES_MESSAGES");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    emit(&fixture, &topic, None);
    let insert = "INSERT INTO outbox (topic, payload) VALUES ($1, '\"a row\"')";
    fixture.client().execute(insert, &[&topic]).unwrap();
    emit(&fixture, &topic, None);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].value_text(), Some("\"a row\""));
    assert_position_advances(&fixture);
    assert_eq!(fixture.consumer().end_offsets(&topic), [1]);
}

#[test]
fn ignored_messages_do_not_hold_the_position() {
    let mut fixture = fixture("message_idle");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let foreign = "SELECT pg_logical_emit_message(n % 2 = 0, 'other', repeat('x', 1000))
        FROM generate_series(1, 1000) n";
    fixture.client().batch_execute(foreign).unwrap();
    assert_position_advances(&fixture);
    // An idle relay that waits for messages does not retain WAL of others either.
    fixture
        .client()
        .batch_execute("CREATE TABLE busy AS SELECT generate_series(1, 10000)")
        .unwrap();
    assert_position_advances(&fixture);
    assert_eq!(fixture.consumer().end_offsets(&topic), [0]);
}

/// Waits until the slot has confirmed everything written so far.
#[track_caller]
pub fn assert_position_advances(fixture: &Fixture) {
    let mut client = fixture.client();
    let end: String = client.query_one("SELECT pg_current_wal_lsn()::text", &[]).unwrap().get(0);
    let sql = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    wait_until("the position to pass the last write", SOON, || {
        client.query_one(sql, &[&fixture.slot(), &end]).unwrap().get(0)
    });
}
