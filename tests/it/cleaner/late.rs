//! Rows that are published late: their retention begins with their publication.

use std::time::Instant;

use super::{
    BINARY, OLD, SOON, YOUNG, ids, stop, wait_deleted, wait_rounds, with_fast_cleaner, write,
};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const RETENTION_SECONDS: u64 = 10;

#[track_caller]
fn with_long_retention(name: &str) -> Fixture {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, name));
    fixture.set("POSTRIDER_CLEANER_RETENTION", &format!("{RETENTION_SECONDS}s"));
    fixture
}

#[track_caller]
fn wait_older_than_the_retention(fixture: &Fixture) {
    let sql = format!(
        "SELECT max(created_at) < now() - interval '{RETENTION_SECONDS} seconds' FROM outbox"
    );
    let mut client = fixture.client();
    wait_until("the rows to be old", SOON, || client.query_one(&sql, &[]).unwrap().get(0));
}

#[test]
fn a_row_that_waited_for_its_relay_is_kept_for_the_retention_after_its_publication() {
    let mut fixture = with_long_retention("clean_late");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    stop(&mut fixture);
    let late = write(&fixture, &topic, YOUNG, 5);
    wait_older_than_the_retention(&fixture);
    // None of it is published before this point.
    let before = Instant::now();
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(5, SOON);
    // A restart neither restarts the retention nor forgets it.
    fixture.relay().kill9();
    fixture.start_relay().wait_ready(SOON);
    wait_deleted(&mut fixture, &topic, &late);
    let kept = before.elapsed();
    assert!(kept.as_secs() >= RETENTION_SECONDS, "gone after {kept:?}");
}

/// For example, an event that was dead for a long time and was replayed.
#[test]
fn a_row_published_from_the_side_table_is_kept_for_the_retention_after_its_publication() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_replayed"));
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    fixture.set("POSTRIDER_UNDELIVERED_RETENTION", "0s");
    let good = fixture.create_topic("good", 1, &[]);
    let later = fixture.topic("later");
    fixture.start_relay().wait_ready(SOON);
    let late = write(&fixture, &later, OLD, 3);
    let mut client = fixture.client();
    let mut count = |status: &str| -> i64 {
        let sql = "SELECT count(*) FROM postrider.undelivered WHERE status = $1";
        client.query_one(sql, &[&status]).unwrap().get(0)
    };
    wait_until("they are dead", SOON, || count("dead") == 3);
    fixture.create_topic("later", 1, &[]);
    super::wait_confirmed(&fixture);
    let replayed = fixture.run(&["replay", "--all"]);
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    assert_eq!(count("delivered"), 3);
    // The side table is cleaned at startup.
    stop(&mut fixture);
    fixture.start_relay().wait_ready(SOON);
    wait_rounds(&mut fixture, &good);
    assert!(ids(&fixture).is_superset(&late), "rows were deleted as soon as they were published");
    let sql = "UPDATE postrider.undelivered SET delivered_at = now() - interval '2 hours'";
    assert_eq!(fixture.client().execute(sql, &[]).unwrap(), 3);
    wait_deleted(&mut fixture, &good, &late);
}

#[test]
fn marks_stay_few_and_are_deleted_with_the_progress() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_marks"));
    fixture.set("POSTRIDER_CLEANER_RETENTION", "2s");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let mut number = |sql: &str| -> i64 { client.query_one(sql, &[]).unwrap().get(0) };
    let count = "SELECT count(*) FROM postrider.cleaner_mark";
    // By now there were so many that some must have been deleted.
    let made = "SELECT pg_stat_get_tuples_inserted('postrider.cleaner_mark'::regclass)";
    wait_until("many marks to be made", SOON, || {
        write(&fixture, &topic, YOUNG, 1);
        let marks = number(count);
        assert!(marks <= 60, "{marks} marks");
        number(made) > 100
    });
    stop(&mut fixture);
    number("WITH gone AS (DELETE FROM postrider.progress RETURNING 1) SELECT count(*) FROM gone");
    assert_eq!(number(count), 0);
}
