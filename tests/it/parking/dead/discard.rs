//! Discarding events.

use crate::harness::parked_events::{
    BINARY, ParkedEvent, assert_contains_all, insert_all, run_command, states,
};
use testkit::fixture::Fixture;

#[test]
fn discarding_must_be_confirmed() {
    let fixture = Fixture::new(BINARY, "confirm");
    insert_all(&fixture, &[ParkedEvent::dead("t", 1), ParkedEvent::dead("t", 2)]);
    let text = run_command(&fixture, &["dead", "discard", "--all"], 2);
    assert_contains_all(&text, &["would discard 2 dead events: they would never be published\n"]);
    assert_eq!(states(&fixture), ["1 dead 0", "2 dead 0"]);
}

#[test]
fn only_selected_dead_events_are_discarded() {
    let fixture = Fixture::new(BINARY, "chosen");
    let pending = ParkedEvent { status: "pending", ..ParkedEvent::dead("t", 4) };
    let rows =
        [ParkedEvent::dead("t", 1), ParkedEvent::dead("t", 2), ParkedEvent::dead("u", 3), pending];
    let ids = insert_all(&fixture, &rows);
    let [first, last] = [ids[0].to_string(), ids[3].to_string()];
    let flags = ["dead", "discard", "--yes", "--id", &first, "--id", &last];
    assert_eq!(run_command(&fixture, &flags, 0), "discarded 1 dead event\n");
    run_command(&fixture, &["dead", "discard", "--yes", "--topic", "u"], 0);
    assert_eq!(states(&fixture), ["1 discarded 0", "2 dead 0", "3 discarded 0", "4 pending 0"]);
    run_command(&fixture, &["dead", "discard", "--yes", "--all"], 0);
    assert_eq!(states(&fixture)[1..], ["2 discarded 0", "3 discarded 0", "4 pending 0"]);
}

/// More than fits into one transaction, up to the limit.
#[test]
fn many_events_are_discarded_in_batches() {
    let fixture = Fixture::new(BINARY, "batches");
    let rows: Vec<ParkedEvent> = (0..2500).map(|number| ParkedEvent::dead("t", number)).collect();
    insert_all(&fixture, &rows);
    let flags = ["dead", "discard", "--yes", "--all", "--limit", "2200"];
    assert_eq!(run_command(&fixture, &flags, 0), "discarded 2200 dead events\n");
    let left = states(&fixture);
    assert!(left[..2200].iter().all(|state| state.ends_with("discarded 0")));
    assert!(left[2200..].iter().all(|state| state.ends_with("dead 0")));
}

#[test]
fn the_next_event_of_the_key_becomes_due() {
    let fixture = Fixture::new(BINARY, "frees");
    let rows = [
        ParkedEvent::keyed("t", 1, "k"),
        ParkedEvent::waiting("t", 2, "k"),
        ParkedEvent::waiting("t", 3, "k"),
        ParkedEvent::keyed("t", 4, "other"),
        ParkedEvent::waiting("t", 5, "other"),
    ];
    insert_all(&fixture, &rows);
    run_command(&fixture, &["dead", "discard", "--yes", "--key", "k"], 0);
    let expect = ["1 discarded 0", "2 pending 0", "3 pending 0~", "4 dead 0", "5 pending 0~"];
    assert_eq!(states(&fixture), expect);
}

#[test]
fn rows_locked_by_others_are_skipped() {
    let fixture = Fixture::new(BINARY, "hands");
    let ids = insert_all(&fixture, &[ParkedEvent::dead("t", 1), ParkedEvent::dead("t", 2)]);
    let mut client = fixture.client();
    let mut other = client.transaction().unwrap();
    other
        .execute("SELECT FROM postrider.undelivered WHERE id = $1 FOR UPDATE", &[&ids[0]])
        .unwrap();
    let text = run_command(&fixture, &["dead", "discard", "--yes", "--all"], 0);
    assert_eq!(text, "discarded 1 dead event\n");
    other.rollback().unwrap();
    assert_eq!(states(&fixture), ["1 dead 0", "2 discarded 0"]);
}
