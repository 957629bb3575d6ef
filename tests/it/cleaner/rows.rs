//! Which rows are deleted.

use super::{
    BINARY, OLD, SOON, YOUNG, cleaned, ids, stop, wait_deleted, wait_rounds, with_fast_cleaner,
    write,
};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[test]
fn old_rows_are_deleted_and_young_ones_are_kept() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean"));
    let topic = fixture.create_topic("events", 1, &[]);
    let before = write(&fixture, &topic, OLD, 25);
    fixture.start_relay().wait_ready(SOON);
    let young = write(&fixture, &topic, YOUNG, 25);
    let old = write(&fixture, &topic, OLD, 25);
    wait_deleted(&mut fixture, &topic, &before);
    wait_deleted(&mut fixture, &topic, &old);
    assert!(ids(&fixture).is_superset(&young));
    wait_until("the deleted rows to be counted", SOON, || cleaned(&mut fixture) == 50.0);
    let records = fixture.consumer().read_n(75, SOON);
    let published: Vec<i64> = records.iter().map(|it| it.id().parse().unwrap()).collect();
    assert!(before.iter().chain(&old).all(|id| published.contains(id)));
}

#[test]
fn the_column_with_the_age_of_a_row_can_have_another_name() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_mapped"));
    let add = "ALTER TABLE public.outbox ADD written_at timestamptz NOT NULL DEFAULT now()";
    fixture.client().batch_execute(add).unwrap();
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", "created_at=written_at");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let young = write(&fixture, &topic, OLD, 5);
    let sql = "INSERT INTO public.outbox (topic, payload, written_at)
        SELECT $1, '{}', now() - interval '2 hours' FROM generate_series(1, 5) RETURNING id";
    let old = fixture.client().query(sql, &[&topic]).unwrap();
    wait_deleted(&mut fixture, &topic, &old.iter().map(|row| row.get(0)).collect());
    assert!(ids(&fixture).is_superset(&young), "their created_at is not used here");
}

#[test]
fn parked_rows_are_kept_until_they_are_discarded() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_parked"));
    let topic = fixture.create_topic("events", 1, &[]);
    let dead = write(&fixture, "not a topic!", OLD, 3);
    let good = write(&fixture, &topic, OLD, 3);
    fixture.start_relay().wait_ready(SOON);
    wait_deleted(&mut fixture, &topic, &good);
    wait_rounds(&mut fixture, &topic);
    assert!(ids(&fixture).is_superset(&dead), "events of these are in the side table");
    let output = fixture.run(&["dead", "discard", "--all", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait_deleted(&mut fixture, &topic, &dead);
}

#[test]
fn nothing_is_deleted_while_the_relay_is_stopped_or_paused_or_the_cleaner_is_off() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_stopped"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &topic, OLD, 5);
    wait_deleted(&mut fixture, &topic, &first);
    stop(&mut fixture);
    let waiting = write(&fixture, &topic, OLD, 5);
    fixture.set("POSTRIDER_RELAY_ENABLED", "false").start_relay();
    wait_until("the paused relay", SOON, || fixture.relay().http_get("/livez").is_ok());
    assert!(ids(&fixture).is_superset(&waiting));
    stop(&mut fixture);
    fixture.unset("POSTRIDER_RELAY_ENABLED").set("POSTRIDER_CLEANER_ENABLED", "false");
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_until(SOON, |records| has_all(records, &waiting));
    assert!(ids(&fixture).is_superset(&waiting), "the cleaner is off");
    stop(&mut fixture);
    fixture.unset("POSTRIDER_CLEANER_ENABLED").start_relay().wait_ready(SOON);
    wait_deleted(&mut fixture, &topic, &waiting);
}

fn has_all(records: &[Received], ids: &std::collections::BTreeSet<i64>) -> bool {
    ids.iter().all(|id| records.iter().any(|record| record.id() == id.to_string()))
}

#[test]
fn a_key_can_be_reused_once_its_row_is_deleted() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_again"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO outbox (topic, payload, idempotency_key, created_at)
        VALUES ($1, '{}', 'once', now() - interval '2 hours') ON CONFLICT DO NOTHING RETURNING id";
    let mut client = fixture.client();
    let mut insert = || client.query_opt(sql, &[&topic]).unwrap().map(|row| row.get::<_, i64>(0));
    let first = insert().unwrap();
    wait_deleted(&mut fixture, &topic, &[first].into());
    let second = insert().expect("a new event");
    assert_ne!(first, second);
    fixture.consumer().read_until(SOON, |records| has_all(records, &[first, second].into()));
}

#[test]
fn rows_of_a_long_transaction_are_deleted_only_after_they_are_published() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_long"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    let mut long = client.transaction().unwrap();
    let sql = "INSERT INTO outbox (topic, payload, created_at)
        SELECT $1, '{}', now() - interval '2 hours' FROM generate_series(1, 5) RETURNING id";
    let rows = long.query(sql, &[&topic]).unwrap();
    let late = rows.iter().map(|row| row.get(0)).collect();
    // Meanwhile the cleaner passes it.
    wait_rounds(&mut fixture, &topic);
    long.commit().unwrap();
    wait_deleted(&mut fixture, &topic, &late);
    fixture.consumer().read_until(SOON, |records| has_all(records, &late));
}
