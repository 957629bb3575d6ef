//! A replay overtakes nothing unless requested.

use std::time::Duration;

use crate::harness::parked_events::{
    BINARY, ParkedEvent, assert_contains_all, insert_all, run_command, states,
};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(60);

#[track_caller]
fn published(fixture: &Fixture, count: usize) -> Vec<String> {
    let records = fixture.consumer().read_n(count, SOON);
    records.iter().map(|record| record.id().to_owned()).collect()
}

#[test]
fn a_replay_overtakes_earlier_events_only_if_allowed() {
    let mut fixture = Fixture::new(BINARY, "overtake");
    let topic = fixture.create_topic("t", 1, &[]);
    let first = ParkedEvent { status: "pending", ..ParkedEvent::keyed(&topic, 1, "k") };
    let rows = [
        first,
        ParkedEvent::keyed(&topic, 2, "k"),
        ParkedEvent::keyed(&topic, 3, "free"),
        ParkedEvent::dead(&topic, 4),
        ParkedEvent { reason: "too-large", ..ParkedEvent::keyed(&topic, 5, "m") },
        ParkedEvent::keyed(&topic, 6, "m"),
    ];
    insert_all(&fixture, &rows);
    let text = run_command(&fixture, &["replay", "--reason", "topic-missing"], 1);
    assert_contains_all(
        &text,
        &["replayed 2 of 4", "2 skipped: an earlier event", "--allow-reorder"],
    );
    assert_eq!(published(&fixture, 2), ["3", "4"]);
    let left =
        ["1 pending 0", "2 dead 0", "3 delivered 1", "4 delivered 1", "5 dead 0", "6 dead 0"];
    assert_eq!(states(&fixture), left);
    run_command(&fixture, &["replay", "--reason", "topic-missing", "--allow-reorder"], 0);
    assert_eq!(published(&fixture, 4), ["3", "4", "2", "6"]);
    assert_eq!(states(&fixture)[0], "1 pending 0");
}

#[test]
fn events_of_a_key_are_replayed_in_log_order_and_the_next_becomes_due() {
    let mut fixture = Fixture::new(BINARY, "key");
    let topic = fixture.create_topic("t", 1, &[]);
    let rows = [
        ParkedEvent::waiting(&topic, 4, "k"),
        ParkedEvent::keyed(&topic, 3, "k"),
        ParkedEvent::keyed(&topic, 1, "k"),
        ParkedEvent::keyed(&topic, 2, "k"),
    ];
    insert_all(&fixture, &rows);
    run_command(&fixture, &["replay", "--key", "k"], 0);
    assert_eq!(published(&fixture, 3), ["1", "2", "3"]);
    let left = ["1 delivered 1", "2 delivered 1", "3 delivered 1", "4 pending 0"];
    assert_eq!(states(&fixture), left);
}

/// Earlier events of the key could still be in flight.
#[test]
fn events_that_the_slot_has_not_confirmed_wait() {
    let mut fixture = Fixture::new(BINARY, "confirmed");
    let topic = fixture.create_topic("t", 1, &[]);
    let late = ParkedEvent { commit_lsn: "FFFFFF/0", ..ParkedEvent::keyed(&topic, 1, "k") };
    insert_all(&fixture, &[late, ParkedEvent::keyed(&topic, 2, "other")]);
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(&text, &["replayed 1 of 2", "1 skipped: the relay has not confirmed"]);
    assert_eq!(states(&fixture), ["1 dead 0", "2 delivered 1"]);
    // Without the slot nothing can be in flight.
    fixture.client().execute("SELECT pg_drop_replication_slot($1)", &[&fixture.slot()]).unwrap();
    run_command(&fixture, &["replay", "--all"], 0);
    assert_eq!(published(&fixture, 2), ["2", "1"]);
}

/// The relay publishes newer events of their keys until it has read which events were taken over.
/// This relay never reads any.
#[test]
fn events_that_were_taken_over_wait_until_the_relay_holds_their_keys() {
    let mut fixture = Fixture::new(BINARY, "taken").halting();
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    insert_all(&fixture, &[ParkedEvent::keyed(&topic, 1, "k"), ParkedEvent::dead(&topic, 2)]);
    let sql = "UPDATE postrider.progress SET takeovers = takeovers + 1 WHERE slot = $1";
    assert_eq!(fixture.client().execute(sql, &[&fixture.slot()]).unwrap(), 1);
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(&text, &["replayed 1 of 2", "1 skipped: the relay", "taken over"]);
    assert_eq!(states(&fixture), ["1 dead 0", "2 delivered 1"]);
    // A relay that begins to stream reads them first.
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    wait_until("the slot to be free", SOON, || fixture.slot_holder().is_none());
    run_command(&fixture, &["replay", "--all"], 0);
    assert_eq!(published(&fixture, 2), ["2", "1"]);
}

#[test]
fn rows_locked_by_others_hold_their_key() {
    let mut fixture = Fixture::new(BINARY, "hands");
    let topic = fixture.create_topic("t", 1, &[]);
    let rows = [
        ParkedEvent::keyed(&topic, 1, "k"),
        ParkedEvent::keyed(&topic, 2, "k"),
        ParkedEvent::dead(&topic, 3),
    ];
    let ids = insert_all(&fixture, &rows);
    let mut client = fixture.client();
    let mut other = client.transaction().unwrap();
    other
        .execute("SELECT FROM postrider.undelivered WHERE id = $1 FOR UPDATE", &[&ids[0]])
        .unwrap();
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(
        &text,
        &["replayed 1 of 3", "1 skipped: another command", "1 skipped: an earlier"],
    );
    other.rollback().unwrap();
    run_command(&fixture, &["replay", "--all"], 0);
    assert_eq!(published(&fixture, 3), ["3", "1", "2"]);
}
