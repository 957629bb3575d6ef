//! Rows that are in the table before the slot: never skipped silently.

use super::print::psql;
use super::{SOON, empty, stdout};
use crate::backfill::deleted::{assert_ids_published, write_and_delete};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::slot::confirmed_lsn;
use testkit::fixture::Fixture;

const TABLE: &str =
    "CREATE TABLE public.outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL, payload json)";
const WRITE: &str = "INSERT INTO public.outbox (topic, payload)
    SELECT $1, '{}' FROM generate_series(1, 5)";
const NOTE: &str = "note: 5 rows of public.outbox are older than slot";

/// A table with five rows, and nothing else.
fn with_rows(name: &str) -> (Fixture, String) {
    let mut fixture = empty(name);
    fixture.client().batch_execute(TABLE).unwrap();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.client().execute(WRITE, &[&topic]).unwrap();
    (fixture, topic)
}

#[track_caller]
fn migrate(fixture: &Fixture, flags: &[&str]) -> String {
    stdout(&fixture.run(&[&["migrate"], flags].concat()))
}

/// Checks that all five and a later event are published.
#[track_caller]
fn assert_published(fixture: &mut Fixture, topic: &str) {
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '{}')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let records = fixture.consumer().read_n(6, SOON);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn existing_rows_are_counted_until_an_operator_decides_to_skip_them() {
    let (fixture, _) = with_rows("rows_noted");
    let printed = migrate(&fixture, &[]);
    assert!(printed.contains(NOTE), "{printed}");
    assert!(printed.contains("`postrider migrate --existing-rows publish`"), "{printed}");
    assert!(confirmed_lsn(&fixture).is_some());
    let again = migrate(&fixture, &[]);
    assert!(again.contains(NOTE), "{again}");
    for flags in [&["--existing-rows", "skip"][..], &[]] {
        let printed = migrate(&fixture, flags);
        assert!(!printed.contains("note:"), "{printed}");
    }
}

#[test]
fn existing_rows_are_counted_although_migrate_was_killed_after_creating_the_slot() {
    let (fixture, _) = with_rows("rows_killed");
    migrate(&fixture, &[]);
    // As if it had been killed right after storing where the slot begins.
    let forget = "DELETE FROM postrider.existing_rows; DELETE FROM postrider.coverage";
    fixture.client().batch_execute(forget).unwrap();
    for _ in 0..2 {
        let printed = migrate(&fixture, &[]);
        assert!(printed.contains(NOTE), "{printed}");
    }
    // As if it had been killed even earlier.
    fixture.client().batch_execute("DELETE FROM postrider.progress").unwrap();
    let printed = migrate(&fixture, &[]);
    assert!(
        printed.contains("note: 5 rows of public.outbox are in the table already"),
        "{printed}"
    );
}

#[test]
fn rows_of_a_table_added_to_a_slot_later_are_counted() {
    let (mut fixture, _) = with_rows("rows_later");
    migrate(&fixture, &["--existing-rows", "skip"]);
    fixture.start_relay().wait_ready(SOON);
    let later = "CREATE TABLE later (LIKE outbox INCLUDING ALL);
        INSERT INTO later (topic, payload) VALUES ('t', '1'), ('t', '2')";
    fixture.client().batch_execute(later).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.later");
    for _ in 0..2 {
        let printed = migrate(&fixture, &[]);
        assert!(
            printed.contains("note: 2 rows of public.later are in the table already"),
            "{printed}"
        );
        assert!(!printed.contains("public.outbox are"), "{printed}");
    }
    let output = fixture.run(&["migrate", "--existing-rows", "publish"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("pg_drop_replication_slot"), "{errors}");
    for flags in [&["--existing-rows", "skip"][..], &[]] {
        let printed = migrate(&fixture, flags);
        assert!(!printed.contains("note:"), "{printed}");
    }
}

#[test]
fn a_table_without_rows_needs_no_decision() {
    let fixture = empty("rows_none");
    for _ in 0..2 {
        let printed = migrate(&fixture, &[]);
        assert!(!printed.contains("note:"), "{printed}");
    }
}

#[test]
fn existing_rows_are_published_first_on_request() {
    let (mut fixture, topic) = with_rows("rows_first");
    let printed = migrate(&fixture, &["--existing-rows", "publish"]);
    assert!(printed.contains("later    slot"), "{printed}");
    assert!(!printed.contains("note:"), "{printed}");
    // The decision is remembered: another run creates no slot either.
    let printed = migrate(&fixture, &[]);
    assert!(printed.contains("later    slot"), "{printed}");
    assert_eq!(confirmed_lsn(&fixture), None);
    assert_published(&mut fixture, &topic);
    let printed = migrate(&fixture, &[]);
    assert!(printed.contains("found    slot"), "{printed}");
    assert!(!printed.contains("note:"), "{printed}");
}

#[test]
fn the_note_can_be_followed_while_the_slot_is_unread() {
    let (mut fixture, topic) = with_rows("rows_then");
    assert!(migrate(&fixture, &[]).contains(NOTE));
    migrate(&fixture, &["--existing-rows", "publish"]);
    assert_published(&mut fixture, &topic);
    assert!(!migrate(&fixture, &[]).contains("note:"));
    // From now on a new slot would lose the contents of this one.
    let output = fixture.run(&["migrate", "--existing-rows", "publish"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("has already been read"), "{errors}");
    assert!(confirmed_lsn(&fixture).is_some());
}

#[test]
fn rows_already_in_an_unread_slot_are_published_too() {
    let (mut fixture, topic) = with_rows("rows_kept");
    migrate(&fixture, &[]);
    let deleted = write_and_delete(&fixture, "public.outbox", &topic);
    let slot = confirmed_lsn(&fixture);
    migrate(&fixture, &["--existing-rows", "publish"]);
    assert_eq!(confirmed_lsn(&fixture), slot);
    fixture.start_relay();
    assert_ids_published(&fixture, &topic, &[&deleted]);
}

/// The configuration used to publish the rows need not enable messages.
#[test]
fn events_without_a_table_in_an_unread_slot_are_published_too() {
    const MESSAGES: &str = "POSTRIDER_POSTGRES_MESSAGES";
    let (mut fixture, topic) = with_rows("rows_emitted");
    fixture.set(MESSAGES, "true");
    migrate(&fixture, &[]);
    let emit = || -> String {
        let sql = "SELECT postrider.emit($1, '{}')";
        fixture.client().query_one(sql, &[&topic]).unwrap().get(0)
    };
    let before = emit();
    let mut publish = fixture.command(&["migrate", "--existing-rows", "publish"]);
    stdout(&publish.env_remove(MESSAGES).output().unwrap());
    let after = emit();
    fixture.unset(MESSAGES);
    assert_halts_at_start(&mut fixture, "has promised to publish events", "postgres.messages");
    fixture.set(MESSAGES, "true");
    fixture.start_relay();
    assert_ids_published(&fixture, &topic, &[&before, &after]);
}

#[test]
fn a_setting_and_a_flag_that_contradict_each_other_are_refused() {
    let (mut fixture, topic) = with_rows("rows_both");
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    for flags in [&["--existing-rows", "skip"][..], &["--existing-rows", "skip", "--print"]] {
        let output = fixture.run(&[&["migrate"], flags].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert!(errors.contains("postgres.snapshot"), "{errors}");
    }
    let printed = migrate(&fixture, &[]);
    assert!(!printed.contains("note:"), "{printed}");
    assert_published(&mut fixture, &topic);
}

#[test]
fn the_script_warns_publishes_or_skips() {
    let (fixture, _) = with_rows("rows_warned");
    let script = |flags: &[&str]| migrate(&fixture, &[&["--print"], flags].concat());
    let run = |fixture: &Fixture, script: &str| {
        let output = psql(fixture, script);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{printed}");
        printed
    };
    let printed = run(&fixture, &script(&[]));
    assert!(printed.contains("rows of public.outbox are older than slot"), "{printed}");
    assert!(!run(&fixture, &script(&[])).contains("older than slot"));
    assert!(!migrate(&fixture, &[]).contains("note:"));

    let (mut fixture, topic) = with_rows("rows_script");
    let script = migrate(&fixture, &["--print", "--existing-rows", "publish"]);
    assert!(!run(&fixture, &script).contains("older than slot"));
    assert_eq!(confirmed_lsn(&fixture), None);
    run(&fixture, &script);
    assert_published(&mut fixture, &topic);

    let (fixture, _) = with_rows("rows_skipped");
    let script = migrate(&fixture, &["--print", "--existing-rows", "skip"]);
    assert!(!run(&fixture, &script).contains("older than slot"));
    assert!(confirmed_lsn(&fixture).is_some());
    assert!(!migrate(&fixture, &[]).contains("note:"));
}
