//! Events of an ordering key after one that is parked.

use super::{BINARY, QUIET, SOON, wait_statuses, with_fast_poller, write};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::fixture::Fixture;

#[track_caller]
fn discard_dead(fixture: &Fixture) {
    let output = fixture.run(&["dead", "discard", "--all", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn later_events_of_the_key_wait_until_the_first_is_discarded() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "waiting"));
    let topic = fixture.create_topic("events", 3, &[]);
    let mut expected = Expected::default();
    fixture.start_relay().wait_ready(SOON);
    expected.push(&topic, "held", write(&fixture, &topic, Some("held"), "{}"));
    write(&fixture, &topic, Some("held"), "[]");
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(write(&fixture, &topic, Some("held"), "{}"));
        expected.push(&topic, "free", write(&fixture, &topic, Some("free"), "{}"));
        expected.push_unordered(&topic, write(&fixture, &topic, None, "{}"));
    }
    let records = fixture.consumer().read_n(11, SOON);
    wait_statuses(&fixture, &[("dead", 1), ("pending", 5)]);
    wait_confirmed(&fixture);
    expected.clone().verdict(&records).assert_exact();

    // Also after a restart.
    fixture.relay().kill9();
    fixture.start_relay().wait_ready(SOON);
    waiting.push(write(&fixture, &topic, Some("held"), "{}"));
    wait_statuses(&fixture, &[("dead", 1), ("pending", 6)]);
    assert_eq!(fixture.consumer().drain_quiet(QUIET).len(), 11, "an event has overtaken another");

    discard_dead(&fixture);
    wait_statuses(&fixture, &[("discarded", 1), ("delivered", 6)]);
    // The key is free again.
    for _ in 0..3 {
        waiting.push(write(&fixture, &topic, Some("held"), "{}"));
    }
    for id in &waiting {
        expected.push(&topic, "held", id);
    }
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
}

#[test]
fn a_key_under_traffic_is_freed() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "traffic"));
    let topic = fixture.create_topic("events", 1, &[]);
    let mut expected = Expected::default();
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, Some("k"), "[]");
    for _ in 0..50 {
        expected.push(&topic, "k", write(&fixture, &topic, Some("k"), "{}"));
    }
    wait_statuses(&fixture, &[("dead", 1), ("pending", 50)]);
    discard_dead(&fixture);
    // Events are written meanwhile; the last ones are published directly.
    let is_free = |fixture: &Fixture, id: &str| {
        let sql = "SELECT count(*) FROM postrider.undelivered WHERE row_id = $1";
        fixture.client().query_one(sql, &[&id]).unwrap().get::<_, i64>(0) == 0
    };
    let consumer = fixture.consumer();
    let mut records = Vec::new();
    let freed = (0..2_000).any(|_| {
        let id = write(&fixture, &topic, Some("k"), "{}");
        expected.push(&topic, "k", &id);
        records.extend(consumer.next(std::time::Duration::from_millis(1)));
        wait_confirmed(&fixture);
        is_free(&fixture, &id)
    });
    assert!(freed, "events of the key are parked forever");
    let rest = expected.len() - records.len();
    records.extend(consumer.read_n(rest, SOON));
    expected.verdict(&records).assert_exact();
}

#[test]
fn with_continue_later_events_overtake() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "overtake"));
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "continue");
    let topic = fixture.create_topic("events", 1, &[]);
    let mut expected = Expected::default();
    fixture.start_relay().wait_ready(SOON);
    for number in 0..10 {
        let headers = if number == 3 { "[]" } else { "{}" };
        let id = write(&fixture, &topic, Some("k"), headers);
        if number != 3 {
            expected.push(&topic, "k", id);
        }
    }
    let records = fixture.consumer().read_n(9, SOON);
    expected.verdict(&records).assert_exact();
    wait_statuses(&fixture, &[("dead", 1)]);
}

/// Nothing would process them, and later events of their keys would overtake them.
#[test]
fn a_relay_with_order_halt_does_not_start_while_events_are_parked() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "then_halt"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, Some("k"), "[]");
    wait_statuses(&fixture, &[("dead", 1)]);
    wait_confirmed(&fixture);
    fixture.relay().kill9();
    let mut fixture = fixture.halting();
    assert_halts_at_start(&mut fixture, "undelivered.order is halt", "postrider dead discard");
    discard_dead(&fixture);
    fixture.start_relay().wait_ready(SOON);
}
