//! Events that can't be published are parked, and the rest is published.

mod bounds;
mod dead;
mod foreign_sessions;
mod halt;
mod keys;
mod load;
mod logged;
mod model;
mod orphans;
mod oversized;
mod poller;
mod real_kafka;
mod replay;
mod rows;
mod store;
mod unstorable;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Long enough for a record that was sent to be read.
const QUIET: Duration = Duration::from_secs(2);
/// Part of payloads: it must not appear in any log or error.
const MARKER: &str = "s3cret-m4rker";

/// A fixture whose poller is fast enough for a test.
#[track_caller]
fn with_fast_poller(fixture: Fixture) -> Fixture {
    let mut fixture = fixture;
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "1s");
    fixture
}

/// Writes an event in its own transaction and returns its id.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, key: Option<&str>, headers: &str) -> String {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload, headers)
        VALUES ($1, $2, to_json($3::text), $4::text::json) RETURNING id::text";
    fixture.client().query_one(sql, &[&topic, &key, &MARKER, &headers]).unwrap().get(0)
}

/// An event is refused, another waits for it, and a third is published.
#[track_caller]
fn assert_parks_and_continues(fixture: &Fixture, topic: &str) {
    write(fixture, topic, Some("k"), "[1]");
    let good = write(fixture, topic, None, "{}");
    write(fixture, topic, Some("k"), "{}");
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), good);
    wait_statuses(fixture, &[("dead", 1), ("pending", 1)]);
    wait_confirmed(fixture);
}

/// How many rows of the side table have each status.
#[track_caller]
fn statuses(fixture: &Fixture) -> BTreeMap<String, i64> {
    let sql = "SELECT status, count(*) FROM postrider.undelivered GROUP BY status";
    let rows = fixture.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[track_caller]
fn wait_statuses(fixture: &Fixture, expect: &[(&str, i64)]) {
    let expect: BTreeMap<String, i64> =
        expect.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect();
    let mut last = BTreeMap::new();
    let what = format!("the side table to have {expect:?}");
    let reached = testkit::wait::poll_for(SOON, || {
        last = statuses(fixture);
        (last == expect).then_some(())
    });
    assert!(reached.is_some(), "waited too long for {what}, it has {last:?}");
}

/// The current end of the log.
#[track_caller]
fn wal_position(fixture: &Fixture) -> String {
    let sql = "SELECT pg_current_wal_insert_lsn()::text";
    fixture.client().query_one(sql, &[]).unwrap().get(0)
}

/// Whether the slot has confirmed this position.
#[track_caller]
fn is_confirmed(fixture: &Fixture, position: &str) -> bool {
    let sql = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    fixture.client().query_one(sql, &[&fixture.slot(), &position]).unwrap().get(0)
}

#[track_caller]
fn assert_no_marker(fixture: &mut Fixture) {
    let log = fixture.relay().log();
    assert!(!log.contains(MARKER), "content of an event in:\n{log}");
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE last_error LIKE '%' || $1 || '%'";
    let count: i64 = fixture.client().query_one(sql, &[&MARKER]).unwrap().get(0);
    assert_eq!(count, 0, "content of an event in last_error");
}

/// Whether an event is, or was, in the side table.
#[track_caller]
fn is_parked(fixture: &Fixture, id: &str) -> bool {
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE row_id = $1";
    fixture.client().query_one(sql, &[&id]).unwrap().get::<_, i64>(0) > 0
}

/// Writes events of several keys in turn, in one transaction; returns key and id of each.
#[track_caller]
fn write_keyed(fixture: &Fixture, topic: &str, events: i64, keys: i64) -> Vec<(String, String)> {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'k' || n % $2::bigint, to_json($3::text) FROM generate_series(1, $4::bigint) n
        RETURNING ordering_key, id::text";
    let rows = fixture.client().query(sql, &[&topic, &keys, &MARKER, &events]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
