//! The same during a snapshot: another instance takes it over, and the brokers return before
//! Postgres can be reached.

use std::time::{Duration, Instant};

use crate::harness::instances::{start_second, wait_standby};
use crate::harness::metrics::{metric, state};
use crate::standby::{BINARY, SOON};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::proxy::Proxy;
use testkit::shared;
use testkit::wait::wait_until;

const EVENTS: i64 = 2_000;
const IN_FLIGHT: &str = "POSTRIDER_LIMITS_IN_FLIGHT_EVENTS";
const LINGER: &str = "POSTRIDER_KAFKA_PROPERTIES_LINGER_MS";
/// Longer than the relay's Kafka clients wait between two attempts to connect, and longer than they
/// linger.
const FLUSHED_WITHIN: Duration = Duration::from_secs(5);

/// Writes rows of one key with the values from..from + EVENTS.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, from: i64) {
    let sql = "INSERT INTO outbox (topic, payload, ordering_key)
        SELECT $1, to_json(n), 'k' FROM generate_series($2::bigint, $3::bigint) n";
    fixture.client().execute(sql, &[&topic, &from, &(from + EVENTS - 1)]).unwrap();
}

/// Starts a relay that reaches Postgres through the proxy, and takes a second for every 100 rows.
#[track_caller]
fn start_slow(fixture: &mut Fixture, proxy: &Proxy) {
    let direct = fixture.postgres().url(fixture.database());
    let url = fixture.postgres().url_via(proxy.port(), fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url).set(IN_FLIGHT, "100").set(LINGER, "1000");
    fixture.start_relay();
    fixture.set("POSTRIDER_DATABASE_URL", &direct).unset(IN_FLIGHT).unset(LINGER);
}

/// One instance has published the first of these, and another one the rest, maybe repeating some,
/// each in order.
#[track_caller]
fn assert_two_runs(records: &[Received]) {
    let values: Vec<i64> =
        records.iter().map(|it| it.value_text().unwrap().parse().unwrap()).collect();
    let turns: Vec<&[i64]> = values.windows(2).filter(|pair| pair[1] <= pair[0]).collect();
    assert!(turns.len() <= 1, "rows were published after newer ones: {turns:?}");
    let mut all = values.clone();
    all.sort_unstable();
    all.dedup();
    assert!(all.into_iter().eq(1..=2 * EVENTS), "rows are missing");
    assert_eq!(values.last(), Some(&(2 * EVENTS)));
}

#[test]
fn an_instance_cut_off_in_a_snapshot_flushes_nothing_later() {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let proxy = Proxy::to(shared::postgres().port());
    let address = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "cut_off_snapshot", &address, &kafka.broker());
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = fixture.create_topic("state", 1, &[]);
    write(&fixture, &topic, 1);
    start_slow(&mut fixture, &proxy);
    fixture.consumer().read_n(1, SOON);
    kafka.stop();
    let in_flight = |fixture: &mut Fixture| metric(fixture.relay(), "postrider_in_flight_events");
    wait_until("rows in flight", SOON, || in_flight(&mut fixture) > Some(0.0));
    // The first one has the lease, and keeps it as long as it reaches Postgres.
    let second = start_second(&fixture);

    proxy.unplug();
    wait_until("the other one to have the snapshot", SOON, || {
        state(&second) == "blocked-on-broker"
    });
    wait_until("the first one to have given up", SOON, || {
        fixture.relay().log().contains("so this one gives up its events in flight")
    });
    assert_eq!(in_flight(&mut fixture), Some(0.0));
    write(&fixture, &topic, 1 + EVENTS);
    kafka.start_again();
    let consumer = fixture.consumer();
    consumer.read_until(SOON, |records| {
        records.last().and_then(Received::value_text) == Some(&(2 * EVENTS).to_string())
    });
    let begun = Instant::now();
    wait_until("every client to have found the broker", SOON, || begun.elapsed() > FLUSHED_WITHIN);
    let end = consumer.end_offsets(&topic)[0];
    let records = fixture.consumer().read_n(usize::try_from(end).unwrap(), SOON);
    assert_two_runs(&records);
    proxy.cut();
    proxy.pass();
    wait_standby(fixture.relay());
}
