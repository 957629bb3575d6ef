//! The side table is bounded in rows and in bytes, whatever is parked.

use std::time::Duration;

use super::{BINARY, SOON, is_parked, wait_statuses, with_fast_poller, write};
use crate::harness::metrics::{metric_sum, state};
use crate::harness::slot::wait_confirmed;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::wait::{poll_for, wait_until};

/// Longer than it takes to count the side table.
const COUNTED: Duration = Duration::from_secs(7);

/// Tombstones have no value, but each is still a row.
#[test]
fn tombstones_open_the_breaker_and_it_stays_open() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "tombstones"));
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_BYTES", "1MiB");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, Some("k"), "[1]");
    wait_statuses(&fixture, &[("dead", 1)]);
    let mut client = fixture.client();
    let sql = "INSERT INTO public.outbox (topic, ordering_key) VALUES ($1, 'k')";
    let insert = client.prepare(sql).unwrap();
    for _ in 0..1500 {
        client.execute(&insert, &[&topic]).unwrap();
    }
    wait_until("the breaker to open", SOON, || state(fixture.relay()) == "breaker-open");
    let closed = poll_for(COUNTED, || (state(fixture.relay()) != "breaker-open").then_some(()));
    assert!(closed.is_none(), "it has closed:\n{}", fixture.relay().log());
    let sql = "SELECT count(*), sum(bytes)::bigint FROM postrider.undelivered";
    let row = client.query_one(sql, &[]).unwrap();
    let (rows, bytes): (i64, i64) = (row.get(0), row.get(1));
    assert!(rows < 1024 && bytes <= 1 << 20, "{rows} rows of {bytes} bytes");
}

/// The bytes counted before parking equal the bytes counted in the table.
#[test]
fn an_event_larger_than_the_bound_is_parked_alone() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "one_too_large"));
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_BYTES", "1MiB");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, payload, headers)
        VALUES ($1, to_json(repeat('x', 2000000)), '[1]')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    wait_statuses(&fixture, &[("dead", 1)]);
    wait_confirmed(&fixture);
}

/// In a topic with more held keys than the relay remembers, every key may be held; in other topics
/// none.
#[test]
fn a_topic_with_very_many_keys_affects_no_other() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "many_keys"));
    let crowded = fixture.create_topic("crowded", 1, &[]);
    let good = fixture.create_topic("good", 1, &[]);
    let sql = "INSERT INTO postrider.undelivered (slot, source_table, row_id, topic, ordering_key, headers,
            commit_lsn, ordinal, timestamp, form, status, reason, value_bytes)
        SELECT $1, 'public.outbox', '-' || n, $2, 'k' || n, '[]', '0/1', n, now(), 'whole', 'dead',
            'too-large', 0 FROM generate_series(1, 120000) n";
    fixture.client().execute(sql, &[&fixture.slot(), &crowded]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let held_by_key = write(&fixture, &crowded, Some("k120000"), "{}");
    let parked_first = write(&fixture, &crowded, Some("new"), "{}");
    let direct = write(&fixture, &good, Some("k1"), "{}");
    let topics = [crowded.as_str(), good.as_str()];
    let records = Consumer::new(fixture.broker(), &topics).read_n(2, SOON);
    let mut ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    ids.sort_unstable();
    let mut expect = [parked_first.as_str(), direct.as_str()];
    expect.sort_unstable();
    assert_eq!(ids, expect);
    wait_statuses(&fixture, &[("dead", 120_000), ("delivered", 1), ("pending", 1)]);
    assert!(is_parked(&fixture, &held_by_key) && is_parked(&fixture, &parked_first));
    assert!(!is_parked(&fixture, &direct));
    assert_eq!(metric_sum(fixture.relay(), "postrider_restarts_total"), 0.0);
}
