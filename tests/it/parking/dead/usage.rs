//! Required arguments, and the errors if they are missing.

use crate::harness::halt::assert_one_sentence_and_its_fix;
use crate::harness::parked_events::{
    BINARY, ParkedEvent, assert_exit_code, insert_all, run_command, states,
};
use testkit::fixture::Fixture;
use testkit::shared;

#[test]
fn all_events_must_be_requested_explicitly() {
    let fixture = Fixture::new(BINARY, "asked");
    insert_all(&fixture, &[ParkedEvent::dead("t", 1)]);
    for command in [&["replay"][..], &["replay", "--limit", "5"], &["dead", "discard", "--yes"]] {
        let output = fixture.run(command);
        assert_exit_code(&output, 2);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_one_sentence_and_its_fix(&errors);
        assert!(errors.contains("--all") && errors.contains("--id"), "{errors}");
    }
    assert_eq!(states(&fixture), ["1 dead 0"]);
}

#[test]
fn an_invalid_time_and_an_invalid_status_are_refused() {
    let fixture = Fixture::new(BINARY, "times");
    for command in [
        &["dead", "list", "--since", "tomorrow"][..],
        &["dead", "list", "--status", "dead,gone"],
        &["replay", "--all", "--rate", "0"],
        &["replay", "--all", "--timestamp", "never"],
    ] {
        assert_exit_code(&fixture.run(command), 2);
    }
}

#[test]
fn without_the_side_table_the_fix_is_to_run_migrate() {
    let (postgres, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, "bare", &postgres.address(), &broker);
    for command in [
        &["dead", "list"][..],
        &["dead", "show", "1"],
        &["dead", "discard", "--all", "--yes"],
        &["replay", "--all"],
        &["replay", "--all", "--dry-run"],
    ] {
        let output = fixture.run(command);
        assert_exit_code(&output, 3);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_one_sentence_and_its_fix(&errors);
        assert!(errors.contains("fix: run `postrider migrate`"), "{errors}");
    }
}

/// Here `--table` is a filter; the configured tables are still read from the configuration.
#[test]
fn the_table_flag_is_a_filter_whatever_is_configured() {
    let mut fixture = Fixture::new(BINARY, "filter");
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.second");
    let second = ParkedEvent { source_table: "public.second", ..ParkedEvent::dead("t", 2) };
    insert_all(&fixture, &[ParkedEvent::dead("t", 1), second]);
    let listed = run_command(&fixture, &["dead", "list", "--table", "second", "--json"], 0);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.contains("\"source_table\":\"public.second\""), "{listed}");
    let listed = run_command(&fixture, &["--table", "public.outbox", "dead", "list", "--json"], 0);
    assert_eq!(listed.lines().count(), 2, "{listed}");
}
