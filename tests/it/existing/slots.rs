//! Slots created by somebody else.

use crate::harness::halt::assert_halts_at_start;

use super::{assert_refused, prepared, publish, values};

const MADE_BY_HAND: &str = "
    create table outbox (topic text, payload json);
    create publication postrider for table outbox;
    select pg_create_logical_replication_slot('SLOT', 'pgoutput'";

#[test]
fn a_slot_and_a_publication_made_by_hand_are_used() {
    let mut fixture = prepared("by_hand", &format!("{MADE_BY_HAND})"));
    let what = "the table postrider.progress is missing";
    assert_halts_at_start(&mut fixture, what, "run `postrider migrate`");
    let output = fixture.run(&["migrate"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    for thing in ["found    table public.outbox", "found    publication", "found    slot"] {
        assert!(stdout.contains(thing), "{thing:?} is not in\n{stdout}");
    }
    let records = publish(&mut fixture, "insert into outbox values ('TOPIC', '1')", 1);
    assert_eq!(values(&records), ["1"]);
}

// Rows read before the commit could still be rolled back.
#[test]
fn a_slot_for_two_phase_commit_is_refused() {
    let mut fixture = prepared("two_phase", &format!("{MADE_BY_HAND}, false, true)"));
    assert_refused(&mut fixture, "has two_phase enabled", "postgres.slot");
}
