//! Topics that do not exist yet, or were deleted for a while.

use std::time::{Duration, Instant};

use super::super::{BINARY, SOON, is_parked, wait_statuses, with_fast_poller, write, write_keyed};
use crate::harness::metrics::metric_sum;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

/// How long a missing topic may hold up the others, once.
const DELAY_MAX: Duration = Duration::from_secs(5);

#[test]
fn a_missing_topic_holds_up_no_other_and_its_events_are_delivered_later() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "missing_topic"));
    let good = fixture.create_topic("good", 1, &[]);
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    let mut expected = Expected::default();
    let mut parked = Vec::new();
    for round in 0..5 {
        for number in 0..20 {
            let key = format!("k{}", number % 4);
            parked.push((key.clone(), write(&fixture, &missing, Some(&key), "{}")));
        }
        let written = Instant::now();
        write(&fixture, &good, None, "{}");
        consumer.read_n(1, SOON);
        let delay = written.elapsed();
        assert!(delay < DELAY_MAX, "delayed for {delay:?}");
        assert!(round == 0 || delay < Duration::from_secs(2), "delayed again, for {delay:?}");
    }
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 100)]);
    let before = metric_sum(fixture.relay(), "postrider_restarts_total");

    fixture.create_topic("missing", 3, &[]);
    wait_statuses(&fixture, &[("delivered", 100)]);
    for (key, id) in &parked {
        expected.push(&missing, key, id);
    }
    // All new ones are published directly as soon as the keys are free.
    wait_until("new events to be published directly", SOON, || {
        let write = |number: usize| {
            let key = format!("k{}", number % 4);
            let id = write(&fixture, &missing, Some(&key), "{}");
            expected.push(&missing, &key, &id);
            id
        };
        let written: Vec<String> = (0..20).map(write).collect();
        wait_confirmed(&fixture);
        !written.iter().any(|id| is_parked(&fixture, id))
    });
    let consumer = testkit::consumer::Consumer::new(fixture.broker(), &[&missing]);
    let records = consumer.read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    let after = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert_eq!(before, after, "the relay has restarted");
}

/// The poller claims more than the stream may have in flight, and sends all of it at once: in the
/// careful lane each partition has one record in flight.
#[test]
fn a_batch_of_parked_events_can_exceed_the_streams_in_flight_limit() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "small_stream"));
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", "4");
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    write_keyed(&fixture, &missing, 100, 50);
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 100)]);
    // The limit is so small that no batches are sent.
    fixture.create_topic("missing", 24, &[("max.message.bytes", "10000")]);
    wait_statuses(&fixture, &[("delivered", 100)]);
    let log = fixture.relay().log();
    assert!(!log.contains("did not accept a record"), "{log}");
}

#[test]
fn an_unpublishable_event_is_dead_even_while_it_waits_for_another() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "dead_behind"));
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &missing, Some("k"), "{}");
    write(&fixture, &missing, Some("k"), "[]");
    write(&fixture, &missing, Some("k"), "{}");
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 1), ("pending", 2)]);
    fixture.create_topic("missing", 1, &[]);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), first);
    wait_statuses(&fixture, &[("delivered", 1), ("dead", 1), ("pending", 1)]);
}
