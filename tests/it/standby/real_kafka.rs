//! Events handed to a Kafka client must not arrive after another instance has taken over.

mod snapshot;

use std::time::{Duration, Instant};

use crate::harness::instances::{start_second, wait_standby};
use crate::harness::metrics::{metric, state};
use crate::standby::{BINARY, SOON};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::proxy::Proxy;
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::wait_until;

const EVENTS: i64 = 1_000;
/// Longer than the relay's Kafka clients wait between two attempts to connect: 1 s.
const RECONNECTS_WITHIN: Duration = Duration::from_secs(5);

#[track_caller]
fn write(fixture: &Fixture, topic: &str, from: i64) {
    let sql = "INSERT INTO outbox (topic, payload, ordering_key)
        SELECT $1, to_json(n), 'k' FROM generate_series($2::bigint, $3::bigint) n";
    fixture.client().execute(sql, &[&topic, &from, &(from + EVENTS - 1)]).unwrap();
}

#[track_caller]
fn wait_in_flight(relay: &Relay, events: i64) {
    wait_until(&format!("{events} events in flight"), SOON, || {
        metric(relay, "postrider_in_flight_events") == Some(events as f64)
    });
}

#[test]
fn an_instance_cut_off_from_postgres_flushes_nothing_later() {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let proxy = Proxy::to(shared::postgres().port());
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, "cut_off_kafka", &address, &kafka.broker());
    let topic = fixture.create_topic("state", 1, &[]);
    let direct = fixture.postgres().url(fixture.database());
    let url = fixture.postgres().url_via(proxy.port(), fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay().wait_ready(SOON);
    fixture.set("POSTRIDER_DATABASE_URL", &direct);
    let second = start_second(&fixture);
    let sql = "INSERT INTO outbox (topic, payload, ordering_key) VALUES ($1, '0', 'k')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    fixture.consumer().read_n(1, SOON);

    kafka.stop();
    write(&fixture, &topic, 1);
    wait_in_flight(fixture.relay(), EVENTS);
    proxy.unplug();
    // It can't know whether it was replaced: it stops before the other one can get the slot.
    wait_in_flight(fixture.relay(), 0);
    // It does not know the topic: without a broker it waits with the first event.
    wait_until("the other one to have the slot", SOON, || state(&second) == "blocked-on-broker");
    proxy.cut();
    proxy.pass();
    wait_standby(fixture.relay());
    write(&fixture, &topic, 1 + EVENTS);

    kafka.start_again();
    let all = usize::try_from(1 + 2 * EVENTS).unwrap();
    fixture.consumer().read_until(SOON, |records| {
        records.last().and_then(|it| it.value_text()) == Some(&(2 * EVENTS).to_string())
    });
    let begun = Instant::now();
    wait_until("every client to have found the broker", SOON, || {
        begun.elapsed() > RECONNECTS_WITHIN
    });
    let ends = Consumer::new(&kafka.broker(), &[&topic]).end_offsets(&topic);
    let records = fixture.consumer().read_n(usize::try_from(ends[0]).unwrap(), SOON);
    let last = records.last().unwrap().value_text().unwrap().to_owned();
    assert_eq!((records.len(), last), (all, (2 * EVENTS).to_string()));
}
