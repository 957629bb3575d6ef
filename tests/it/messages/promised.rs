//! An event without a table is accepted only where a relay has promised to publish it.

use super::{BINARY, SOON, emit};
use crate::harness::halt::{assert_halts_at_start, last_two_lines, wait_halt};
use crate::harness::instances::{interrupt_standby, start_another_with};
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

const MESSAGES: &str = "POSTRIDER_POSTGRES_MESSAGES";

/// Checks that the four functions refuse because no relay is configured to read messages.
#[track_caller]
fn assert_refused(fixture: &Fixture) {
    assert_all_refused(fixture, "postgres.messages is not true", "postrider migrate");
}

#[track_caller]
fn assert_all_refused(fixture: &Fixture, what: &str, hint: &str) {
    for call in [
        "emit('t', '{}')",
        "emit_bytes('t', 'x')",
        "emit_batch('{t}', '{1}')",
        "emit_batch_bytes('{t}', '{x}')",
    ] {
        let error = fixture.client().batch_execute(&format!("SELECT postrider.{call}"));
        let error = error.expect_err(call);
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "55000", "{call}: {error}");
        assert!(error.message().contains(what), "{call}: {error}");
        assert!(error.hint().unwrap().contains(hint), "{call}: {error}");
    }
}

#[test]
fn an_event_is_refused_without_a_relay_that_reads_it() {
    let mut fixture = Fixture::new(BINARY, "promise_none");
    let topic = fixture.create_topic("orders", 1, &[]);
    assert_refused(&fixture);
    fixture.start_relay().wait_ready(SOON);
    assert_refused(&fixture);
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    // After the migration it is in the slot, whenever the relay starts.
    fixture.set(MESSAGES, "true").migrate();
    let id = emit(&fixture, &topic, None);
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
}

#[test]
fn an_event_is_refused_while_its_slot_is_gone() {
    let mut fixture = Fixture::new(BINARY, "promise_gone");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.set(MESSAGES, "true").migrate();
    emit(&fixture, &topic, None);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(1, SOON);
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let gone = format!("slot {} is gone or lost", fixture.slot());
    assert_all_refused(&fixture, &gone, "postrider recover");
    // A slot of another database does not count, as after restoring a dump.
    let elsewhere = fixture.postgres().create_database("promise_elsewhere");
    let make = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    fixture.postgres().client(&elsewhere).execute(make, &[&fixture.slot()]).unwrap();
    assert_all_refused(&fixture, &gone, "postrider recover");
    fixture.postgres().drop_database(&elsewhere).unwrap();
    let output = fixture.run(&["recover"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let id = emit(&fixture, &topic, None);
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(2, SOON)[1].id(), id);
}

#[test]
fn an_event_is_refused_when_its_slot_has_lost_wal() {
    let options = PostgresOptions::default().setting("max_slot_wal_keep_size", "1MB");
    let postgres = PostgresServer::start(options);
    let (address, broker) = (postgres.address(), shared::broker());
    let mut fixture = Fixture::unmigrated(BINARY, "promise_lost", &address, &broker);
    fixture.set(MESSAGES, "true").migrate();
    emit(&fixture, "orders", None);
    wait_until("the slot to be lost", SOON, || {
        let mut client = fixture.client();
        // Separate statements: switching a segment and a checkpoint need to be outside of a
        // transaction.
        for sql in ["TRUNCATE outbox", "SELECT pg_switch_wal()", "CHECKPOINT"] {
            client.batch_execute(sql).unwrap();
        }
        let sql = "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1";
        client.query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    let lost = format!("slot {} is gone or lost", fixture.slot());
    assert_all_refused(&fixture, &lost, "postrider recover");
}

#[test]
fn a_relay_that_does_not_read_messages_skips_none() {
    let mut fixture = Fixture::new(BINARY, "promise_running");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    // The configuration was changed, and the relay with the old one still runs.
    fixture.set(MESSAGES, "true").migrate();
    let id = emit(&fixture, &topic, None);
    fixture.client().batch_execute("CREATE TABLE busy AS SELECT generate_series(1, 1000)").unwrap();
    let log = wait_halt(&mut fixture);
    let [what, fix] = last_two_lines(&log);
    assert!(what.contains("has promised to publish events without a table"), "{what}");
    assert!(fix.contains("set postgres.messages = true"), "{fix}");
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
}

#[test]
fn a_standby_that_does_not_read_messages_does_not_take_over() {
    let mut fixture = Fixture::new(BINARY, "promise_messages_standby");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.set(MESSAGES, "true").migrate();
    fixture.start_relay().wait_ready(SOON);
    let mut other = start_another_with(&fixture, &[(MESSAGES, "false")]);
    wait_until("the standby to report that it can't take over", SOON, || {
        let (code, body) = other.http_get("/readyz").unwrap_or_default();
        code == 503 && body.contains("does not read events without a table")
    });
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    wait_until("the standby to find the slot free", SOON, || {
        let (code, body) = other.http_get("/readyz").expect("the standby has ended");
        code == 503 && body.contains("is free")
    });
    assert!(fixture.slot_holder().is_none() && other.is_running(), "{}", other.log());
    interrupt_standby(&fixture, &other);
    let id = emit(&fixture, &topic, None);
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
}

#[test]
fn a_promise_holds_until_it_is_withdrawn() {
    let mut fixture = Fixture::new(BINARY, "promise_withdrawn");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.set(MESSAGES, "true").migrate();
    let id = emit(&fixture, &topic, None);
    let withdraw = ["migrate", "--withdraw", "messages"];
    assert_eq!(fixture.run(&withdraw).status.code(), Some(3), "while it is configured");
    fixture.unset(MESSAGES);
    let fix = "migrate --withdraw messages";
    assert_halts_at_start(&mut fixture, "has promised to publish events without a table", fix);
    assert_eq!(fixture.run(&["recover"]).status.code(), Some(3), "recover would drop the slot");
    fixture.set(MESSAGES, "true").start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    fixture.unset(MESSAGES);
    assert!(fixture.run(&withdraw).status.success());
    assert_refused(&fixture);
    fixture.start_relay().wait_ready(SOON);
}

#[test]
fn a_relay_makes_the_promise_for_an_existing_slot() {
    // A separate server: a new slot begins no later than the oldest slot of the server.
    let postgres = PostgresServer::start(PostgresOptions::default());
    let (address, broker) = (postgres.address(), shared::broker());
    let mut fixture = Fixture::unmigrated(BINARY, "promise_found", &address, &broker);
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.migrate();
    // Created by hand. Any transaction that is open for a moment makes it look older than it is.
    fixture.forget_slot();
    wait_until("a slot that is younger than the publication", SOON, || {
        let mut client = fixture.client();
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
            WHERE slot_name = $1";
        client.execute(drop, &[&fixture.slot()]).unwrap();
        let create = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
        client.execute(create, &[&fixture.slot()]).unwrap();
        let sql = "SELECT age(p.xmin) > age(s.catalog_xmin) FROM pg_replication_slots s,
            pg_publication p WHERE s.slot_name = $1";
        client.query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    fixture.set(MESSAGES, "true").migrate();
    assert_refused(&fixture);
    fixture.start_relay();
    wait_until("the promise", SOON, || {
        let sql = "SELECT count(*) = 1 FROM postrider.message_slot";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    let id = emit(&fixture, &topic, None);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
    // It ends with the slot.
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    fixture.forget_slot();
    assert_refused(&fixture);
}
