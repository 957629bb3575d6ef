//! Freezes a broker that no other test uses.

use std::time::{Duration, Instant};

use crate::harness::metrics::state;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);
/// Longer than a broker may be silent before the relay calls itself blocked.
const IDLE: Duration = Duration::from_secs(6);

#[test]
fn idle_time_does_not_count_as_waiting_for_the_broker() {
    let kafka = KafkaServer::start(KafkaOptions::default());
    let postgres = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "blocked", &postgres.address(), &kafka.broker());
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let insert = "insert into outbox (topic, payload) values ($1, '{}')";
    let mut client = fixture.client();
    client.execute(insert, &[&topic]).unwrap();
    fixture.consumer().read_n(1, SOON);
    let idle_since = Instant::now();
    wait_until("a relay that was idle", SOON, || idle_since.elapsed() > IDLE);

    kafka.pause();
    let waiting_since = Instant::now();
    client.execute(insert, &[&topic]).unwrap();
    wait_until("the relay to report that it is blocked", SOON, || {
        state(fixture.relay()) == "blocked-on-broker"
    });
    let (status, reason) = fixture.relay().http_get("/readyz").unwrap();
    assert_eq!(status, 503);
    let reported = seconds(&reason);
    let waited = waiting_since.elapsed().as_secs();
    // An idle relay checks its clock once a second.
    assert!(reported <= waited + 1, "{reason}, but only {waited} s have passed");

    kafka.resume();
    fixture.relay().wait_ready(SOON);
    fixture.consumer().read_n(2, SOON);
}

/// The number in "… acknowledged nothing for 5 s …".
#[track_caller]
fn seconds(reason: &str) -> u64 {
    let number = reason
        .split_once("nothing for ")
        .and_then(|(_, rest)| rest.split_once(" s"))
        .and_then(|(number, _)| number.parse().ok());
    number.unwrap_or_else(|| panic!("no time in: {reason}"))
}
