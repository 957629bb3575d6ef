//! Rows that are written and deleted during a snapshot, as Debezium's users do: they are in the
//! slot and nowhere else.

use std::time::Duration;

use super::stop::{has_job, slow_down, speed_up};
use crate::harness::outbox::{expected, without_slot, write};
use crate::startup::catalog::{lose_slot, server_that_gives_up_slots};
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const ROWS: i64 = 10;

/// Writes an event whose row is deleted in the same transaction, and returns its id.
#[track_caller]
pub(crate) fn write_and_delete(fixture: &Fixture, table: &str, topic: &str) -> String {
    let mut client = fixture.client();
    let mut transaction = client.transaction().unwrap();
    let insert = format!("INSERT INTO {table} (topic, payload) VALUES ($1, '{{}}') RETURNING id");
    let id: i64 = transaction.query_one(&insert, &[&topic]).unwrap().get(0);
    transaction.execute(&format!("DELETE FROM {table} WHERE id = $1"), &[&id]).unwrap();
    transaction.commit().unwrap();
    id.to_string()
}

/// Waits until these ids, and all rows in the table, are published.
#[track_caller]
pub(crate) fn assert_ids_published(fixture: &Fixture, topic: &str, ids: &[&str]) {
    let sql = "SELECT id::text FROM public.outbox WHERE topic = $1";
    let rows = fixture.client().query(sql, &[&topic]).unwrap();
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let wanted: Vec<&str> = rows.iter().map(String::as_str).chain(ids.iter().copied()).collect();
    fixture.consumer().read_until(SOON, |records| {
        wanted.iter().all(|id| records.iter().any(|record| record.id() == *id))
    });
}

/// Starts a relay that has published a row or two of a table and takes a second for each other row.
#[track_caller]
fn snapshotting(fixture: &mut Fixture) -> String {
    let topic = fixture.create_topic("events", 1, &[]);
    write(fixture, &topic, ROWS, ROWS);
    slow_down(fixture);
    fixture.start_relay();
    fixture.consumer().read_n(1, SOON);
    topic
}

#[track_caller]
fn kill(fixture: &mut Fixture) {
    fixture.relay().kill9();
    assert!(has_job(fixture), "the snapshot has ended");
    speed_up(fixture);
}

#[test]
fn deleted_rows_are_published_although_the_snapshot_was_killed() {
    let mut fixture = without_slot("deleted_killed");
    let topic = snapshotting(&mut fixture);
    let before = write_and_delete(&fixture, "public.outbox", &topic);
    kill(&mut fixture);
    let after = write_and_delete(&fixture, "public.outbox", &topic);
    write(&fixture, &topic, 5, 5);
    fixture.start_relay();
    assert_ids_published(&fixture, &topic, &[&before, &after]);
    // Rows written since the slot was created come from the table and from the slot, in order.
    wait_until("the slot to take over", SOON, || !has_job(&fixture));
    let mut records = fixture.consumer().drain_quiet(Duration::from_secs(2));
    records.retain(|record| ![before.as_str(), after.as_str()].contains(&record.id()));
    let verdict = expected(&fixture).verdict(&records);
    verdict.assert_at_least_once(Some(ROWS as usize + 5));
}

/// The slot exists, but the relay was killed before it stored that the slot is to be kept.
#[test]
fn deleted_rows_are_published_although_the_snapshot_was_killed_after_creating_the_slot() {
    let mut fixture = without_slot("deleted_at_once");
    let topic = snapshotting(&mut fixture);
    kill(&mut fixture);
    let sql = "UPDATE postrider.backfill SET keeps_slot = false";
    assert_eq!(fixture.client().execute(sql, &[]).unwrap(), 1);
    let id = write_and_delete(&fixture, "public.outbox", &topic);
    fixture.start_relay();
    assert_ids_published(&fixture, &topic, &[&id]);
}

#[test]
fn deleted_rows_are_published_although_another_table_waits_to_be_read() {
    let mut fixture = without_slot("deleted_added");
    let topic = snapshotting(&mut fixture);
    let before = write_and_delete(&fixture, "public.outbox", &topic);
    kill(&mut fixture);
    // It has its own ids, and a row from before it is published.
    let sql = "CREATE TABLE public.later (LIKE public.outbox INCLUDING ALL);
        ALTER TABLE public.later ALTER COLUMN id RESTART WITH 1000";
    let mut client = fixture.client();
    client.batch_execute(sql).unwrap();
    let insert = "INSERT INTO public.later (topic, payload) VALUES ($1, '{}')";
    client.execute(insert, &[&topic]).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.later");
    fixture.migrate();
    let after = write_and_delete(&fixture, "public.later", &topic);
    fixture.start_relay();
    assert_ids_published(&fixture, &topic, &[&before, "1000", "1001"]);
    assert_eq!(after, "1001");
}

#[test]
fn a_slot_invalidated_by_the_server_is_recreated() {
    let server = server_that_gives_up_slots();
    let mut fixture =
        Fixture::unmigrated(BINARY, "deleted_lost", &server.address(), &shared::broker());
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = snapshotting(&mut fixture);
    kill(&mut fixture);
    lose_slot(&fixture);
    write(&fixture, &topic, 5, 5);
    fixture.start_relay();
    assert_ids_published(&fixture, &topic, &[]);
    wait_until("the slot to take over", SOON, || !has_job(&fixture));
    let id = write_and_delete(&fixture, "public.outbox", &topic);
    assert_ids_published(&fixture, &topic, &[&id]);
    let log = fixture.relay().log();
    assert!(
        log.contains("the slot was lost, together with everything that only it contained"),
        "{log}"
    );
}
