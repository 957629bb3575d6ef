//! Slots that are newer than the rows, were dropped, or lag.

use super::{
    BINARY, OLD, SOON, YOUNG, ids, stop, wait_confirmed, wait_deleted, with_fast_cleaner, write,
};
use crate::harness::halt::{assert_halts_at_start, wait_halt};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::shared;
use testkit::wait::wait_until;

/// A fixture whose cleaner treats rows as old after a second. Rows that are uncertain when a slot
/// begins set a `created_at` up to which nothing is deleted, so these tests can't write rows with
/// an older `created_at` than their real one.
#[track_caller]
fn with_short_retention(name: &str) -> Fixture {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, name));
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    fixture
}

/// A second relay on the same database, with its own slot.
#[track_caller]
pub(crate) fn second_relay(first: &Fixture) -> Fixture {
    let mut second = Fixture::unmigrated(BINARY, "second", first.postgres(), first.broker());
    for (name, value) in first.env() {
        second.set(name, value);
    }
    let slot = second.slot().to_owned();
    second.set("POSTRIDER_SLOT", &slot);
    second.set("POSTRIDER_HTTP_LISTEN", &format!("127.0.0.1:{}", free_port()));
    second.migrate();
    second
}

#[test]
fn another_slot_that_does_not_advance_keeps_the_rows_and_is_logged() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_two"));
    let topic = fixture.create_topic("events", 1, &[]);
    let mut second = second_relay(&fixture);
    fixture.start_relay().wait_ready(SOON);
    second.start_relay().wait_ready(SOON);
    let first = write(&fixture, &topic, OLD, 5);
    wait_deleted(&mut fixture, &topic, &first);
    second.relay().kill9();
    let held = write(&fixture, &topic, OLD, 5);
    wait_confirmed(&fixture);
    let line = format!("slot \\\"{}\\\" covers it too", second.slot());
    wait_until("the slot to be named", SOON, || fixture.relay().log().contains(&line));
    assert!(ids(&fixture).is_superset(&held));
    // The fix from the log.
    let command = format!("postrider --slot {} teardown", second.slot());
    assert!(fixture.relay().log().contains(&command), "{}", fixture.relay().log());
    wait_until("the slot to be free", SOON, || second.slot_holder().is_none());
    // An impossible position does not count as passed.
    let sql = "UPDATE postrider.progress SET position = 'FFFF/0' WHERE slot = $1";
    fixture.client().execute(sql, &[&second.slot()]).unwrap();
    let line = format!("the progress of slot \\\"{}\\\"", second.slot());
    wait_until("the position to be doubted", SOON, || fixture.relay().log().contains(&line));
    assert!(ids(&fixture).is_superset(&held));
    let output = fixture.run(&["--slot", second.slot(), "teardown", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait_deleted(&mut fixture, &topic, &held);
}

#[test]
fn rows_from_before_a_recreated_slot_are_kept() {
    let mut fixture = with_short_retention("clean_anew");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &topic, YOUNG, 5);
    wait_deleted(&mut fixture, &topic, &first);
    stop(&mut fixture);
    let lost = write(&fixture, &topic, YOUNG, 5);
    let slot = fixture.slot().to_owned();
    fixture.postgres().drop_slot(&slot).unwrap();
    let sql = "DELETE FROM postrider.progress WHERE slot = $1";
    fixture.client().execute(sql, &[&slot]).unwrap();
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let next = write(&fixture, &topic, YOUNG, 5);
    wait_deleted(&mut fixture, &topic, &next);
    assert!(ids(&fixture).is_superset(&lost), "these were never published");
    // Rewriting a table gives all its rows a new transaction id.
    let sql = "ALTER TABLE outbox ALTER COLUMN tenant TYPE varchar(99)";
    fixture.client().batch_execute(sql).unwrap();
    let sql = "SELECT count(DISTINCT xmin::text) FROM outbox WHERE id = ANY($1)";
    let lost_ids: Vec<i64> = lost.iter().copied().collect();
    let writers: i64 = fixture.client().query_one(sql, &[&lost_ids]).unwrap().get(0);
    assert_eq!(writers, 1);
    let next = write(&fixture, &topic, YOUNG, 5);
    wait_deleted(&mut fixture, &topic, &next);
    assert!(ids(&fixture).is_superset(&lost), "these were never published");
}

#[test]
fn rows_missed_by_the_publication_are_kept_until_they_are_recovered() {
    let mut fixture = with_short_retention("clean_lapse");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &topic, YOUNG, 5);
    wait_deleted(&mut fixture, &topic, &first);
    let alter = |what: &str| {
        let sql = format!("ALTER PUBLICATION postrider {what} TABLE outbox");
        fixture.client().batch_execute(&sql).unwrap();
    };
    alter("DROP");
    let lost = write(&fixture, &topic, YOUNG, 5);
    alter("ADD");
    let after = write(&fixture, &topic, YOUNG, 5);
    wait_confirmed(&fixture);
    wait_halt(&mut fixture);
    assert!(ids(&fixture).is_superset(&after), "nothing is deleted until that is recovered");
    assert_halts_at_start(&mut fixture, "was not in publication", "postrider recover");
    assert!(ids(&fixture).is_superset(&lost), "these were never published");
    let output = fixture.run(&["recover"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.consumer().read_until(SOON, |records| {
        let published: Vec<&str> = records.iter().map(Received::id).collect();
        lost.iter().all(|id| published.contains(&id.to_string().as_str()))
    });
    fixture.start_relay().wait_ready(SOON);
    let next = write(&fixture, &topic, YOUNG, 5);
    for ids in [lost, after, next] {
        wait_deleted(&mut fixture, &topic, &ids);
    }
}

#[test]
fn rows_of_asynchronous_commits_are_deleted_only_after_they_are_published() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_async"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    client.batch_execute("SET synchronous_commit = off").unwrap();
    let sql = "INSERT INTO outbox (topic, payload, created_at)
        VALUES ($1, '{}', now() - interval '2 hours') RETURNING id";
    let written: Vec<i64> =
        (0..500).map(|_| client.query_one(sql, &[&topic]).unwrap().get(0)).collect();
    wait_deleted(&mut fixture, &topic, &written.iter().copied().collect());
    let records = fixture.consumer().read_until(SOON, |records| records.len() >= written.len());
    let published: Vec<i64> = records.iter().map(|it| it.id().parse().unwrap()).collect();
    assert!(written.iter().all(|id| published.contains(id)));
}

#[test]
fn a_row_from_before_the_slot_with_a_date_in_the_future_is_logged() {
    let (postgres, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, "clean_future", &postgres.address(), &broker);
    let mut fixture = with_fast_cleaner(fixture);
    let topic = fixture.create_topic("events", 1, &[]);
    let sql = "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text,
            payload json, created_at timestamptz DEFAULT now());
        INSERT INTO outbox (topic, created_at) VALUES ('t', now() + interval '1 day')";
    fixture.client().batch_execute(sql).unwrap();
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let old = write(&fixture, &topic, OLD, 5);
    let leaf = fixture.client().query_one("SELECT 'outbox'::regclass::oid", &[]).unwrap();
    let fix = format!("DELETE FROM postrider.cleaner_floor WHERE leaf = {}", leaf.get::<_, u32>(0));
    wait_until("the warning", SOON, || fixture.relay().log().contains(&fix));
    assert!(ids(&fixture).is_superset(&old));
    fixture.client().batch_execute("DELETE FROM outbox WHERE created_at > now()").unwrap();
    fixture.client().batch_execute(&fix).unwrap();
    wait_deleted(&mut fixture, &topic, &old);
}
