//! Which schema each version works with, and in which order they are updated.

use super::SOON;
use crate::harness::instances::{start_second, wait_standby};
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");

/// A version of the schema that is still unknown.
#[track_caller]
fn add_version(fixture: &Fixture, compatible_since: &str) {
    let sql = format!(
        "INSERT INTO postrider.schema_version (version, name, compatible_since) \
         VALUES (9999, 'of the future', {compatible_since})"
    );
    fixture.client().batch_execute(&sql).unwrap();
}

#[track_caller]
fn assert_refused(fixture: &Fixture, arguments: &[&str], fix: &str) {
    let output = fixture.run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{arguments:?}: {errors}");
    assert!(errors.contains("schema postrider has version"), "{arguments:?}: {errors}");
    assert!(errors.contains(fix), "{arguments:?}: {errors}");
}

const COMMANDS: [&[&str]; 5] =
    [&["run"], &["replay", "--all"], &["dead", "list"], &["recover", "--dry-run"], &["recover"]];

#[test]
fn a_newer_schema_is_refused_unless_it_declares_itself_compatible() {
    let mut fixture = Fixture::new(BINARY, "newer_schema");
    add_version(&fixture, "NULL");
    for command in COMMANDS {
        assert_refused(&fixture, command, "run a newer postrider");
    }
    let sql = "UPDATE postrider.schema_version SET compatible_since = 1 WHERE version = 9999";
    fixture.client().batch_execute(sql).unwrap();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '7')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    fixture.consumer().read_n(1, SOON);
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let recovered = fixture.run(&["recover"]);
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let listed = fixture.run(&["dead", "list"]);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[test]
fn an_older_schema_is_refused() {
    let fixture = Fixture::new(BINARY, "older_schema");
    let sql = "DELETE FROM postrider.schema_version
        WHERE version = (SELECT max(version) FROM postrider.schema_version)";
    fixture.client().batch_execute(sql).unwrap();
    for command in COMMANDS {
        assert_refused(&fixture, command, "run `postrider migrate`");
    }
    // None of them has changed it.
    assert_refused(&fixture, &["run"], "run `postrider migrate`");
}

#[test]
fn a_migration_that_was_different_when_it_was_applied_is_reported() {
    let fixture = Fixture::new(BINARY, "checksums");
    let sql = "SELECT count(*) FROM postrider.schema_version WHERE checksum IS NULL";
    assert_eq!(fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0), 0);
    let again = String::from_utf8(fixture.run(&["migrate"]).stdout).unwrap();
    assert!(!again.contains("differs from the one"), "{again}");
    let sql = "UPDATE postrider.schema_version SET checksum = 'another' WHERE version = 7";
    fixture.client().batch_execute(sql).unwrap();
    let output = fixture.run(&["migrate"]);
    let expect = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success() && expect.contains("migration 7 (cleaner)"), "{expect}");
}

/// As described in docs/operations.md: the schema first, then one instance after the other.
#[test]
fn two_instances_are_updated_one_after_the_other() {
    let mut fixture = Fixture::new(BINARY, "rolling");
    let topic = fixture.create_topic("events", 1, &[]);
    let publish = |fixture: &Fixture, expect: usize| {
        let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '7')";
        fixture.client().execute(sql, &[&topic]).unwrap();
        fixture.consumer().read_n(expect, SOON);
    };
    fixture.start_relay().wait_ready(SOON);
    let mut second = start_second(&fixture);
    publish(&fixture, 1);
    // The schema of the next version, compatible with the running instances.
    add_version(&fixture, "(SELECT max(version) FROM postrider.schema_version)");
    publish(&fixture, 2);
    // The first one is updated: the second takes over, on the new schema.
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    publish(&fixture, 3);
    fixture.start_relay();
    wait_standby(fixture.relay());
    second.terminate();
    assert!(second.wait_exit(SOON).success());
    publish(&fixture, 4);
}
