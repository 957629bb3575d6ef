//! Where a broker refuses some events of a batch, exactly those are dead.

use super::super::{BINARY, MARKER, SOON, assert_no_marker, wait_statuses, with_fast_poller};
use crate::harness::metrics::metric_sum;
use crate::harness::slot::wait_confirmed;
use crate::harness::topics::{assert_was_denied, deny_describe_configs, kafka_with_rules};
use testkit::check::{Check, Expected};
use testkit::fixture::Fixture;
use testkit::shared;

const LIMIT: (&str, &str) = ("max.message.bytes", "2000");
const KEYS: i64 = 17;
const EVENTS: i64 = 1_000;
/// Every LARGE-th event is too large. Coprime with the keys, so that all of them are affected.
const LARGE: i64 = 50;

struct Written {
    id: String,
    key: Option<String>,
    is_large: bool,
}

/// Writes fitting and oversized events; every third has no ordering key. Random bytes, so that
/// compression does not make the large ones fit.
#[track_caller]
fn write_mixed(fixture: &Fixture, topic: &str) -> Vec<Written> {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, CASE WHEN n % 3 > 0 THEN 'key-' || n % $2::bigint END,
               to_json($3 || (SELECT string_agg(md5(random()::text || n || m), '')
                  FROM generate_series(1, CASE WHEN n % $4::bigint = 0 THEN 200 ELSE 5 END) m))
          FROM generate_series(1, $5::bigint) n
        RETURNING id::text, ordering_key, octet_length(payload::text) > 2000";
    let values: [&(dyn postgres::types::ToSql + Sync); 5] =
        [&topic, &KEYS, &MARKER, &LARGE, &EVENTS];
    let rows = fixture.client().query(sql, &values).unwrap();
    let read =
        |row: &postgres::Row| Written { id: row.get(0), key: row.get(1), is_large: row.get(2) };
    rows.iter().map(read).collect()
}

/// What the relay knows about the topic's limit.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Known,
    /// The relay has no permission to read it.
    Denied,
    /// It does not apply to compressed records.
    Compressed,
}

/// Publishes and checks. With `holds`, a key waits for its first dead event.
#[track_caller]
fn check(fixture: &mut Fixture, topic: &str, holds: bool, limit: Limit) {
    let written = write_mixed(fixture, topic);
    let mut expected = Expected::default();
    let mut held = std::collections::HashSet::new();
    // Whether a waiting event is too large is known only when its turn has come.
    let (mut dead, mut waiting, mut large) = (0, 0, Vec::new());
    for Written { id, key, is_large } in &written {
        if holds && key.as_ref().is_some_and(|key| held.contains(key)) {
            waiting += 1;
        } else if *is_large {
            dead += 1;
            held.extend(key.clone());
            large.push(id.as_str());
        } else if let Some(key) = key {
            expected.push(topic, key, id);
        } else {
            expected.push_unordered(topic, id);
        }
    }
    fixture.start_relay();
    let consumer = fixture.consumer();
    let mut check = Check::new(expected);
    while !check.is_complete() {
        let record = consumer.next(SOON).expect("no more records arrived");
        check.see(topic, record.partition, record.key_text().unwrap(), record.id());
    }
    wait_confirmed(fixture);
    let live = [("dead", dead), ("pending", waiting)];
    let live: Vec<_> = live.into_iter().filter(|(_, count)| *count > 0).collect();
    wait_statuses(fixture, &live);
    for record in consumer.drain_quiet(super::super::QUIET) {
        check.see(topic, record.partition, record.key_text().unwrap(), record.id());
    }
    check.verdict().assert_at_least_once(None);
    let sql = "SELECT row_id, reason FROM postrider.undelivered WHERE status = 'dead' ORDER BY id";
    let rows = fixture.client().query(sql, &[]).unwrap();
    let mut found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    found.sort_by_key(|id| id.parse::<u64>().unwrap());
    assert_eq!(found, large);
    assert!(rows.iter().all(|row| row.get::<_, &str>(1) == "too-large"));
    // With a known limit nothing is refused; otherwise one refusal reveals it.
    let restarts_max = if limit == Limit::Known { 0.0 } else { 1.0 };
    let restarts = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert!(restarts <= restarts_max, "the relay has restarted {restarts} times");
    if limit == Limit::Denied {
        assert_was_denied(fixture);
    }
    assert_no_marker(fixture);
}

#[track_caller]
fn fixture(name: &str, settings: &[(&str, &str)], limit: Limit) -> (Fixture, String) {
    let address = shared::postgres().address();
    let mut fixture =
        with_fast_poller(Fixture::on(BINARY, name, &address, &kafka_with_rules().broker()));
    for (name, value) in settings {
        fixture.set(name, value);
    }
    let topic = fixture.create_topic("events", 3, &[LIMIT]);
    if limit == Limit::Denied {
        deny_describe_configs(&kafka_with_rules().broker(), &topic);
    }
    (fixture, topic)
}

const CONTINUE: (&str, &str) = ("POSTRIDER_UNDELIVERED_ORDER", "continue");
const ZSTD: (&str, &str) = ("POSTRIDER_KAFKA_PROPERTIES_COMPRESSION_TYPE", "zstd");

#[track_caller]
fn test(name: &str, settings: &[(&str, &str)], limit: Limit) {
    let (mut fixture, topic) = fixture(name, settings, limit);
    check(&mut fixture, &topic, !settings.contains(&CONTINUE), limit);
}

#[test]
fn exactly_the_large_events_are_dead_with_a_known_limit() {
    test("known", &[CONTINUE], Limit::Known);
}

#[test]
fn exactly_the_large_events_are_dead_with_a_known_limit_by_key() {
    test("known_key", &[], Limit::Known);
}

#[test]
fn exactly_the_large_events_are_dead_with_a_hidden_limit() {
    test("denied", &[CONTINUE], Limit::Denied);
}

#[test]
fn exactly_the_large_events_are_dead_with_a_hidden_limit_by_key() {
    test("denied_key", &[], Limit::Denied);
}

#[test]
fn exactly_the_large_events_are_dead_with_compression() {
    test("zstd", &[CONTINUE, ZSTD], Limit::Compressed);
}

#[test]
fn exactly_the_large_events_are_dead_with_compression_and_a_hidden_limit_by_key() {
    test("zstd_key", &[ZSTD], Limit::Denied);
}

/// Too large events are written all the time, and the relay keeps publishing.
#[test]
fn steady_traffic_continues_beside_oversized_events() {
    const ROUNDS: i64 = 30;
    let (mut fixture, topic) = fixture("steady", &[CONTINUE], Limit::Denied);
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'key-' || n, to_json(repeat('x', CASE WHEN n % 10 = 0 THEN 5000 ELSE 50 END))
          FROM generate_series(1, 20) n";
    for round in 1..=ROUNDS {
        fixture.client().execute(sql, &[&topic]).unwrap();
        wait_statuses(&fixture, &[("dead", round * 2)]);
        // The first refusal restarts the stream, so some of the first round may be repeated.
        let mut seen = std::collections::HashSet::new();
        while seen.len() < 18 {
            let record = consumer.next(SOON).expect("no more records arrived");
            let is_new = record.id().parse::<i64>().unwrap() > (round - 1) * 20;
            assert!(is_new || round == 2, "{} was repeated in round {round}", record.id());
            seen.extend(is_new.then(|| record.id().to_owned()));
        }
    }
    let restarts = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert!(restarts <= 1.0, "the relay has restarted {restarts} times");
    assert_was_denied(&mut fixture);
}
