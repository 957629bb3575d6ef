//! A table that leaves the publication, or is replaced, while its rows are being published.

use std::collections::HashSet;
use std::time::Duration;

use super::stop::{has_job, slow_down, speed_up};
use crate::harness::halt::wait_halt;
use crate::harness::outbox::{without_slot, write};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(60);

fn sql(fixture: &Fixture, statement: &str) {
    fixture.client().batch_execute(statement).unwrap_or_else(|error| panic!("{error:?}"));
}

/// Starts a relay that has published a few rows of the table and is slow.
#[track_caller]
fn snapshotting(name: &str) -> (Fixture, String) {
    let mut fixture = without_slot(name);
    let topic = fixture.create_topic("events", 1, &[]);
    write(&fixture, &topic, 4, 4);
    slow_down(&mut fixture);
    fixture.start_relay();
    fixture.consumer().read_n(1, SOON);
    assert!(has_job(&fixture));
    (fixture, topic)
}

/// Waits until all rows in the table are published.
#[track_caller]
fn assert_all_published(fixture: &Fixture) {
    let rows = fixture.client().query("SELECT id::text FROM outbox", &[]).unwrap();
    let mut missing: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let consumer = fixture.consumer();
    while !missing.is_empty() {
        for record in consumer.read_n(1, SOON) {
            missing.remove(record.id());
        }
    }
}

#[test]
fn rows_missed_by_the_publication_during_a_snapshot_are_read_too() {
    let (fixture, topic) = snapshotting("backfill_lapse");
    sql(&fixture, "ALTER PUBLICATION postrider DROP TABLE outbox");
    write(&fixture, &topic, 2, 1);
    sql(&fixture, "ALTER PUBLICATION postrider ADD TABLE outbox");
    wait_until("the snapshot to end", SOON, || !has_job(&fixture));
    assert_all_published(&fixture);
}

#[test]
fn a_promise_does_not_end_when_the_table_leaves_the_publication() {
    let (mut fixture, topic) = snapshotting("backfill_out");
    sql(&fixture, "ALTER PUBLICATION postrider DROP TABLE outbox");
    write(&fixture, &topic, 2, 1);
    let log = wait_halt(&mut fixture);
    assert!(log.contains("was not in publication") && log.contains("recover"), "{log}");
    let promised = "SELECT count(*) = 1 FROM postrider.coverage WHERE slot = $1";
    assert!(fixture.client().query_one(promised, &[&fixture.slot()]).unwrap().get::<_, bool>(0));
    speed_up(&mut fixture);
    let output = fixture.run(&["recover"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout.contains("an earlier snapshot was interrupted"), "{stdout}");
    assert!(!has_job(&fixture));
    fixture.start_relay().wait_ready(SOON);
    assert_all_published(&fixture);
}

#[test]
fn a_table_replaced_before_it_is_read_does_not_count_as_done() {
    let mut fixture = without_slot("backfill_replaced");
    let topic = fixture.create_topic("events", 1, &[]);
    sql(&fixture, "CREATE TABLE first (LIKE outbox INCLUDING ALL)");
    sql(&fixture, "DROP PUBLICATION postrider; CREATE PUBLICATION postrider FOR ALL TABLES");
    fixture.set("POSTRIDER_TABLES", "public.first,public.outbox");
    let insert = "INSERT INTO first (topic, payload) SELECT $1, '{}' FROM generate_series(1, 3)";
    fixture.client().execute(insert, &[&topic]).unwrap();
    write(&fixture, &topic, 3, 1);
    slow_down(&mut fixture);
    fixture.start_relay();
    fixture.consumer().read_n(1, SOON);
    // Its rows are lost with it, and nobody would notice.
    sql(&fixture, "ALTER TABLE outbox RENAME TO earlier");
    sql(&fixture, "CREATE TABLE outbox (LIKE earlier INCLUDING ALL)");
    let log = wait_halt(&mut fixture);
    assert!(log.contains("public.earlier") && log.contains("postgres.tables"), "{log}");
    speed_up(&mut fixture);
    fixture.set("POSTRIDER_TABLES", "public.first,public.outbox,public.earlier");
    fixture.start_relay();
    wait_until("the snapshot to end", SOON, || !has_job(&fixture));
    fixture.consumer().read_n(6, SOON);
}
