//! What must exist in the database.

use super::{BINARY, SOON, write_event};
use crate::harness::halt::{assert_halts_at_start, wait_halt};
use crate::harness::slot::confirmed_lsn;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

/// A migrated database with a waiting event, so that something could be confirmed by mistake.
#[track_caller]
fn waiting(name: &str) -> Fixture {
    let fixture = Fixture::new(BINARY, name);
    write_event(&fixture, "anything");
    fixture
}

/// Replaces the fixture's slot.
#[track_caller]
fn replace_slot(fixture: &Fixture, create: &str) {
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let sql = create.replace("NAME", fixture.slot());
    fixture.client().batch_execute(&sql).unwrap();
}

#[track_caller]
fn check_broken_by(name: &str, sql: &str, what: &str, fix: &str) {
    let mut fixture = waiting(name);
    fixture.client().batch_execute(sql).unwrap();
    assert_halts_at_start(&mut fixture, what, fix);
}

#[test]
fn a_missing_slot_halts_the_relay() {
    let mut fixture = waiting("no_slot");
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let what = format!("slot \"{}\" is gone", fixture.slot());
    assert_halts_at_start(&mut fixture, &what, "run `postrider recover`");
    let sql = "DELETE FROM postrider.progress WHERE slot = $1";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    let what = format!("there is no replication slot \"{}\"", fixture.slot());
    assert_halts_at_start(&mut fixture, &what, "run `postrider migrate`");
    assert_eq!(confirmed_lsn(&fixture), None, "run must not create slots");
}

#[test]
fn a_slot_of_another_plugin_halts_the_relay() {
    let mut fixture = waiting("plugin");
    let create = "SELECT pg_create_logical_replication_slot('NAME', 'test_decoding')";
    replace_slot(&fixture, create);
    assert_halts_at_start(&mut fixture, "test_decoding, not pgoutput", "postgres.slot");
}

#[test]
fn a_physical_slot_halts_the_relay() {
    let mut fixture = waiting("physical");
    replace_slot(&fixture, "SELECT pg_create_physical_replication_slot('NAME')");
    assert_halts_at_start(&mut fixture, "physical, not pgoutput", "postgres.slot");
    // It belongs to no database, so the fixture would not drop it.
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
}

#[test]
fn a_slot_of_another_database_halts_the_relay() {
    let theirs = waiting("theirs");
    let mut ours = waiting("ours");
    ours.set("POSTRIDER_SLOT", theirs.slot());
    let before = confirmed_lsn(&theirs);
    let what = format!("belongs to database {}", theirs.database());
    assert_halts_at_start(&mut ours, &what, "postgres.slot");
    assert_eq!(confirmed_lsn(&theirs), before, "somebody else's slot has moved");
}

/// A server that retains little WAL for a lagging slot.
pub(crate) fn server_that_gives_up_slots() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default().setting("max_slot_wal_keep_size", "1MB"))
}

/// Writes until the server has removed WAL that the fixture's slot needs.
#[track_caller]
pub(crate) fn lose_slot(fixture: &Fixture) {
    let mut client = fixture.client();
    client.batch_execute("CREATE TABLE filler (n int)").unwrap();
    let sql = "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1";
    wait_until("the server to give up the slot", SOON, || {
        // Separate statements: switching a segment and a checkpoint need to be outside of a
        // transaction.
        for sql in ["INSERT INTO filler VALUES (1)", "SELECT pg_switch_wal()", "CHECKPOINT"] {
            client.batch_execute(sql).unwrap();
        }
        client.query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
}

#[test]
fn an_invalidated_slot_halts_the_relay() {
    let server = server_that_gives_up_slots();
    let mut fixture = Fixture::on(BINARY, "lost", &server.address(), &shared::broker());
    write_event(&fixture, "anything");
    lose_slot(&fixture);
    assert_halts_at_start(&mut fixture, "was invalidated", "max_slot_wal_keep_size");
}

#[test]
fn a_slot_invalidated_while_the_relay_runs_halts_it() {
    let server = server_that_gives_up_slots();
    let mut fixture = Fixture::on(BINARY, "losing", &server.address(), &shared::broker());
    fixture.start_relay().wait_ready(SOON);
    // It can't report its position while it is frozen.
    fixture.relay().pause();
    write_event(&fixture, "anything");
    lose_slot(&fixture);
    let before = confirmed_lsn(&fixture);
    fixture.relay().resume();
    let log = wait_halt(&mut fixture);
    assert!(log.contains("was invalidated"), "{log}");
    assert_eq!(confirmed_lsn(&fixture), before, "the position has moved");
}

#[test]
fn a_missing_publication_halts_the_relay() {
    check_broken_by(
        "no_publication",
        "DROP PUBLICATION postrider",
        "there is no publication \"postrider\"",
        "run `postrider migrate`",
    );
}

#[test]
fn a_publication_without_inserts_halts_the_relay() {
    check_broken_by(
        "no_inserts",
        "ALTER PUBLICATION postrider SET (publish = 'update')",
        "publication \"postrider\" does not publish inserts",
        "ALTER PUBLICATION \"postrider\" SET (publish = 'insert')",
    );
}

#[test]
fn a_missing_table_halts_the_relay() {
    check_broken_by(
        "no_table",
        "DROP TABLE outbox",
        "table public.outbox was dropped",
        "run `postrider recover`",
    );
}

#[test]
fn an_unpublished_table_halts_the_relay() {
    check_broken_by(
        "unpublished",
        "ALTER PUBLICATION postrider DROP TABLE outbox",
        "table public.outbox was not in publication \"postrider\" all the time",
        "run `postrider recover`",
    );
}

#[test]
fn a_table_without_a_required_column_halts_the_relay() {
    let mut fixture = Fixture::new(BINARY, "no_payload");
    let sql = "ALTER TABLE outbox DROP COLUMN payload;
               INSERT INTO outbox (topic) VALUES ('anything')";
    fixture.client().batch_execute(sql).unwrap();
    let before = confirmed_lsn(&fixture);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    assert!(log.contains("public.outbox"), "{log}");
    assert!(log.contains("\"payload\""), "{log}");
    assert_eq!(confirmed_lsn(&fixture), before, "the position has moved");
}

#[test]
fn a_publication_dropped_while_the_relay_runs_halts_it() {
    let mut fixture = Fixture::new(BINARY, "dropped");
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    client.batch_execute("DROP PUBLICATION postrider").unwrap();
    write_event(&fixture, "anything");
    let after: String =
        client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).unwrap().get(0);
    let log = wait_halt(&mut fixture);
    if shared::postgres().address().major_version() >= 18 {
        // The server skips the rows with a warning only; the next check of the catalogs halts the
        // relay, and recover publishes them.
        assert!(log.contains("the publication was recreated"), "{log}");
        assert!(log.contains("run `postrider recover`"), "{log}");
    } else {
        assert!(log.contains("publication \"postrider\" does not exist"), "{log}");
        let held = "SELECT confirmed_flush_lsn < $2::text::pg_lsn FROM pg_replication_slots
            WHERE slot_name = $1";
        let held: bool = client.query_one(held, &[&fixture.slot(), &after]).unwrap().get(0);
        assert!(held, "an event that could not be read was confirmed");
    }
    assert_halts_at_start(&mut fixture, "there is no publication", "postrider migrate");
}
