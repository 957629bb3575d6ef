//! If a slot is in use or is not ours, teardown drops nothing at all.

use super::{BINARY, SOON, inventory, stdout_lines};
use crate::harness::halt::assert_one_sentence_and_its_fix;
use testkit::fixture::Fixture;

#[track_caller]
fn assert_refuses(fixture: &Fixture, what: &str, fix: &str) {
    let before = inventory(fixture);
    let output = fixture.run(&["teardown", "--tables", "--yes"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains(what), "{what:?} is not in\n{errors}");
    assert!(errors.contains("nothing was dropped"), "{errors}");
    assert!(errors.lines().last().unwrap().contains(fix), "{fix:?} is not in\n{errors}");
    assert_eq!(inventory(fixture), before, "something was dropped");
}

/// Replaces the fixture's slot.
#[track_caller]
fn replace_slot(fixture: &Fixture, create: &str) {
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let sql = create.replace("NAME", fixture.slot());
    fixture.client().batch_execute(&sql).unwrap();
}

#[test]
fn a_slot_that_a_relay_reads_is_not_dropped() {
    let mut fixture = Fixture::new(BINARY, "busy");
    fixture.start_relay().wait_ready(SOON);
    let pid = fixture.slot_holder().unwrap();
    let slot = fixture.slot();
    let what = format!("slot {slot} is in use by PID {pid} (postrider {slot})");
    assert_refuses(&fixture, &what, "stop the relay that reads it");
    let relay = fixture.relay();
    assert_eq!(relay.http_get("/readyz").unwrap().0, 200, "the relay was disturbed");
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0));
    stdout_lines(&fixture.run(&["teardown", "--tables", "--yes"]), 0);
    assert_eq!(inventory(&fixture), Vec::<String>::new());
}

#[test]
fn a_slot_of_another_plugin_is_not_dropped() {
    let fixture = Fixture::new(BINARY, "plugin");
    let create = "SELECT pg_create_logical_replication_slot('NAME', 'test_decoding')";
    replace_slot(&fixture, create);
    assert_refuses(&fixture, "test_decoding, not pgoutput", "postgres.slot");
}

#[test]
fn a_physical_slot_is_not_dropped() {
    let fixture = Fixture::new(BINARY, "physical");
    replace_slot(&fixture, "SELECT pg_create_physical_replication_slot('NAME')");
    assert_refuses(&fixture, "physical, not pgoutput", "postgres.slot");
    // It belongs to no database, so the fixture would not drop it.
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
}

#[test]
fn a_slot_of_another_database_is_not_dropped() {
    let theirs = Fixture::new(BINARY, "theirs");
    let mut ours = Fixture::new(BINARY, "ours");
    ours.set("POSTRIDER_SLOT", theirs.slot());
    let what = format!("belongs to database {}, not to {}", theirs.database(), ours.database());
    assert_refuses(&ours, &what, "postgres.slot");
    assert!(inventory(&theirs).contains(&"slot".to_owned()), "somebody else's slot was dropped");
}
