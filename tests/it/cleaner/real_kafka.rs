//! Freezes a broker that no other test uses.

use super::{BINARY, OLD, SOON, ids, wait_deleted, with_fast_cleaner, write};
use crate::harness::metrics::state;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

#[test]
fn a_lagging_relay_deletes_nothing_unpublished() {
    let kafka = KafkaServer::start(KafkaOptions::default());
    let postgres = shared::postgres();
    let fixture = Fixture::on(BINARY, "clean_lag", &postgres.address(), &kafka.broker());
    let mut fixture = with_fast_cleaner(fixture);
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &topic, OLD, 5);
    wait_deleted(&mut fixture, &topic, &first);
    kafka.pause();
    let waiting = write(&fixture, &topic, OLD, 30);
    wait_until("the relay to report that it is blocked", SOON, || {
        state(fixture.relay()) == "blocked-on-broker"
    });
    // The WAL is flushed by others and the rows are old enough: only the position keeps them.
    fixture.client().batch_execute("CHECKPOINT").unwrap();
    assert!(ids(&fixture).is_superset(&waiting));
    kafka.resume();
    wait_deleted(&mut fixture, &topic, &waiting);
    fixture.consumer().read_until(SOON, |records| {
        waiting.iter().all(|id| records.iter().any(|it| it.id() == id.to_string()))
    });
}
