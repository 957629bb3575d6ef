//! The circuit breaker: one mistake does not pour the outbox into the side table.

use super::super::{
    BINARY, QUIET, SOON, is_confirmed, statuses, wait_statuses, wal_position, with_fast_poller,
    write,
};
use super::denied;
use crate::harness::metrics::{metric, metric_sum, state};
use crate::harness::servers::secured_kafka;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::kafka::acl::Operation;
use testkit::relay::Relay;
use testkit::wait::wait_until;

const BOUND: i64 = 20;
const OPENED: &str = "the circuit breaker has opened";

#[track_caller]
fn fixture(name: &str) -> Fixture {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, name));
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_EVENTS", &BOUND.to_string());
    fixture
}

/// A fixture whose events of the topic `denied` are refused until writing is allowed, and which
/// publishes nothing else.
#[track_caller]
fn denied_fixture(name: &str) -> (Fixture, String) {
    let mut fixture = denied::fixture(name);
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_EVENTS", &BOUND.to_string());
    // Other events in flight could still be acknowledged, and would count as successes.
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_SHARE", "0.05");
    let denied = fixture.create_topic("denied", 3, &[]);
    secured_kafka().allow(denied::USER, Operation::Describe, &denied);
    // A user without any write permission can't be a producer.
    let allowed = fixture.create_topic("allowed", 1, &[]);
    allow(&allowed);
    (fixture, denied)
}

#[track_caller]
fn allow(topic: &str) {
    secured_kafka().allow(denied::USER, Operation::Write, topic);
}

/// Waits until state, readiness and log report that the breaker is open, and why.
#[track_caller]
fn wait_open(relay: &mut Relay, why: &str) {
    wait_until("the relay to answer", SOON, || relay.http_get("/livez").is_ok());
    wait_until("the breaker to open", SOON, || state(relay) == "breaker-open");
    let (status, body) = relay.http_get("/readyz").unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("breaker-open") && body.contains(why), "{body}");
    assert_eq!(metric(relay, "postrider_breaker_open"), Some(1.0));
    let log = relay.log();
    assert_eq!(log.matches(OPENED).count(), 1, "{log}");
    assert!(!log.contains(super::super::MARKER), "content of an event in:\n{log}");
}

#[track_caller]
fn wait_closed(relay: &mut Relay) {
    wait_until("the breaker to close", SOON, || {
        metric(relay, "postrider_breaker_open") == Some(0.0) && state(relay) == "streaming"
    });
    relay.wait_ready(SOON);
    assert!(relay.log().contains("the circuit breaker has closed"), "{}", relay.log());
}

/// Events of keys that occur twice, far apart.
#[track_caller]
fn write_pairs(fixture: &Fixture, topic: &str, expected: &mut Expected) {
    for number in 0..120 {
        let key = format!("k{}", number % 60);
        expected.push(topic, &key, write(fixture, topic, Some(&key), "{}"));
    }
}

/// A missing topic affects only itself.
#[test]
fn events_of_a_missing_topic_never_hold_up_the_others() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "breaker_missing"));
    let good = fixture.create_topic("good", 1, &[]);
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, payload)
        SELECT $1, '{}' FROM generate_series(1, 1500)";
    fixture.client().execute(sql, &[&missing]).unwrap();
    let id = write(&fixture, &good, None, "{}");
    assert_eq!(Consumer::new(fixture.broker(), &[&good]).read_n(1, SOON)[0].id(), id);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 1500)]);
    let log = fixture.relay().log();
    assert!(!log.contains(OPENED), "{log}");
}

#[test]
fn the_breaker_opens_for_many_events_and_closes_automatically() {
    let (mut fixture, denied) = denied_fixture("breaker");
    let good = fixture.create_topic("good", 1, &[]);
    allow(&good);
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    write_pairs(&fixture, &denied, &mut expected);
    wait_open(fixture.relay(), "not allowed to write to the topics of recent events");
    // The position is held: later events stay in the log.
    let held = wal_position(&fixture);
    expected.push_unordered(&good, write(&fixture, &good, None, "{}"));
    let consumer = Consumer::new(fixture.broker(), &[&good]);
    assert!(consumer.drain_quiet(QUIET).is_empty(), "an event has overtaken another");
    assert!(
        !is_confirmed(&fixture, &held),
        "the position has passed an event that is neither published nor parked"
    );
    let parked: i64 = statuses(&fixture).values().sum();
    assert!(parked <= 2 * BOUND, "{parked} are parked");
    assert_eq!(state(fixture.relay()), "breaker-open");

    let before = (fixture.relay().pid(), metric_sum(fixture.relay(), "postrider_restarts_total"));
    allow(&denied);
    wait_closed(fixture.relay());
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    wait_confirmed(&fixture);
    let after = (fixture.relay().pid(), metric_sum(fixture.relay(), "postrider_restarts_total"));
    assert_eq!(before, after, "the relay has restarted");
    assert_eq!(statuses(&fixture).into_keys().collect::<Vec<_>>(), ["delivered"]);
}

/// While an event is held nothing is read: denied events must not keep the others from showing that
/// the credentials work.
#[test]
fn a_denied_topic_does_not_hold_up_the_others_forever() {
    let (mut fixture, denied) = denied_fixture("breaker_quiet");
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_WINDOW", "5s");
    let good = fixture.create_topic("good", 1, &[]);
    allow(&good);
    fixture.start_relay().wait_ready(SOON);
    let count = 2 * BOUND + 5;
    for _ in 0..count {
        write(&fixture, &denied, None, "{}");
    }
    wait_open(fixture.relay(), "not allowed to write to the topics of recent events");
    let id = write(&fixture, &good, None, "{}");
    assert_eq!(Consumer::new(fixture.broker(), &[&good]).read_n(1, SOON)[0].id(), id);
    wait_closed(fixture.relay());
    wait_confirmed(&fixture);
    assert_eq!(statuses(&fixture).values().sum::<i64>(), count);
}

#[test]
fn a_killed_relay_opens_the_breaker_again() {
    let (mut fixture, denied) = denied_fixture("breaker_killed");
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    write_pairs(&fixture, &denied, &mut expected);
    wait_open(fixture.relay(), "not allowed to write to the topics of recent events");
    fixture.relay().kill9();
    fixture.start_relay();
    wait_open(fixture.relay(), "not allowed to write to the topics of recent events");
    // Events parked before are repeated if the position did not pass them; otherwise as many more
    // are parked.
    let parked = || statuses(&fixture).values().sum::<i64>();
    // Events are counted before they are in the table.
    wait_until("the counted events to be parked", SOON, || parked() >= BOUND);
    // In each run this many were refused, and as many waited for them.
    assert!(parked() <= 4 * BOUND, "{} are parked", parked());
    allow(&denied);
    wait_closed(fixture.relay());
    wait_confirmed(&fixture);
    wait_until("the side table to be done", SOON, || {
        statuses(&fixture).into_keys().eq(["delivered"])
    });
    let records = fixture.consumer().drain_quiet(QUIET);
    expected.verdict(&records).assert_at_least_once(Some(usize::try_from(4 * BOUND).unwrap()));
}

/// Nothing is held when a session begins, so its first events have to show that the cause is fixed.
#[test]
fn the_breaker_closes_if_the_cause_is_fixed_between_two_sessions() {
    let (mut fixture, denied) = denied_fixture("breaker_session");
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    write_pairs(&fixture, &denied, &mut expected);
    wait_open(fixture.relay(), "not allowed to write to the topics of recent events");
    // Postgres is stopped meanwhile, so that no probe of the old session can close it.
    fixture.relay().pause();
    allow(&denied);
    let sql = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
        WHERE slot_name = $1 AND active";
    assert_eq!(fixture.client().execute(sql, &[&fixture.slot()]).unwrap(), 1);
    fixture.relay().resume();
    wait_closed(fixture.relay());
    wait_confirmed(&fixture);
    let restarts = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert!(restarts >= 1.0, "the session has not ended");
}

/// No row of a transaction can leave the side table before all of the transaction is done.
#[test]
fn a_transaction_larger_than_the_bytes_allowed_is_parked_whole() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "breaker_large"));
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_BYTES", "1MiB");
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'k', to_json(repeat('x', 100000)) FROM generate_series(1, 30) RETURNING id::text";
    let rows = fixture.client().query(sql, &[&missing]).unwrap();
    let mut expected = Expected::default();
    rows.iter().for_each(|row| expected.push(&missing, "k", row.get::<_, String>(0)));
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 30)]);
    // The next transaction is held.
    expected.push(&missing, "k", write(&fixture, &missing, Some("k"), "{}"));
    wait_open(fixture.relay(), "more bytes than undelivered.breaker_bytes");
    fixture.create_topic("missing", 1, &[]);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    wait_closed(fixture.relay());
}

#[test]
fn the_bytes_of_waiting_events_also_open_the_breaker() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "breaker_bytes"));
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_BYTES", "1MiB");
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        VALUES ($1, 'k', to_json(repeat('x', 100000))) RETURNING id::text";
    let mut client = fixture.client();
    for _ in 0..30 {
        let id: String = client.query_one(sql, &[&missing]).unwrap().get(0);
        expected.push(&missing, "k", id);
    }
    wait_open(fixture.relay(), "more bytes than undelivered.breaker_bytes");
    let sql = "SELECT sum(value_bytes)::bigint FROM postrider.undelivered";
    let mut parked = || client.query_one(sql, &[]).unwrap().get::<_, Option<i64>>(0);
    // Events are counted before they are in the table.
    wait_until("the counted events to be parked", SOON, || parked() >= Some(900_000));
    let bytes = parked();
    assert!(bytes <= Some(1 << 20), "{bytes:?} bytes are parked");
    fixture.create_topic("missing", 1, &[]);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    wait_closed(fixture.relay());
    wait_confirmed(&fixture);
}

#[test]
fn a_few_bad_events_among_many_do_not_open_the_breaker() {
    let mut fixture = fixture("breaker_share");
    let good = fixture.create_topic("good", 3, &[]);
    let missing = fixture.topic("missing");
    let mut client = fixture.client();
    // A backlog: bad events are found at once, good ones take longer.
    let sql = "INSERT INTO public.outbox (topic, payload)
        SELECT CASE WHEN n % 4 = 0 THEN $1 ELSE $2 END, '{}' FROM generate_series(1, 4000) n";
    for _ in 0..5 {
        client.execute(sql, &[&missing, &good]).unwrap();
    }
    fixture.start_relay().wait_ready(SOON);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 5_000)]);
    let records = fixture.consumer().read_n(15_000, SOON);
    assert!(records.iter().all(|record| record.topic == good));
    let log = fixture.relay().log();
    assert!(!log.contains(OPENED), "{log}");
}

#[test]
fn unpublishable_events_pass_the_breaker_window_by_window() {
    let mut fixture = fixture("breaker_window");
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_WINDOW", "2s");
    let good = fixture.create_topic("good", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    for _ in 0..2 * BOUND + 5 {
        write(&fixture, &good, None, "[]");
    }
    let last = write(&fixture, &good, None, "{}");
    wait_open(fixture.relay(), "too many recent events");
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), last);
    wait_statuses(&fixture, &[("dead", 2 * BOUND + 5)]);
    wait_closed(fixture.relay());
    assert_eq!(fixture.relay().log().matches(OPENED).count(), 2, "not once for each window");
}
