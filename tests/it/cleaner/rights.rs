//! Tables that can't be cleaned are logged, and nothing else is affected.

use super::{BINARY, OLD, SOON, ids, wait_deleted, with_fast_cleaner, write};
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

#[test]
fn a_relay_without_rights_to_clean_logs_a_warning_and_continues() {
    let mut fixture = with_fast_cleaner(Fixture::new(BINARY, "clean_rights"));
    let topic = fixture.create_topic("events", 1, &[]);
    let role = format!("cleaner_{}", fixture.slot());
    let sql = format!(
        "CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA postrider TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA postrider TO {role}"
    );
    fixture.client().batch_execute(&sql).unwrap();
    let url = fixture.postgres().url(fixture.database());
    let url = url.replace("postgres:postgres@", &format!("{role}@"));
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay().wait_ready(SOON);
    let old = write(&fixture, &topic, OLD, 5);
    fixture.consumer().read_n(5, SOON);
    let fix = format!("GRANT SELECT, DELETE ON public.outbox TO {role}");
    wait_until("the warning", SOON, || fixture.relay().log().contains(&fix));
    assert!(ids(&fixture).is_superset(&old));
    assert_eq!(fixture.relay().http_get("/readyz").unwrap().0, 200);
    fixture.client().batch_execute(&fix).unwrap();
    wait_deleted(&mut fixture, &topic, &old);
    let count = fixture.relay().log().matches(&fix).count();
    assert_eq!(count, 1, "the warning is logged once");
}

#[test]
fn tables_without_age_or_id_are_left_alone() {
    for (name, columns, what) in [
        ("clean_ageless", "id bigint, topic text, payload json", "no column for created_at"),
        (
            "clean_idless",
            "created_at timestamptz, topic text, payload json",
            "no column for the id",
        ),
    ] {
        let (postgres, broker) = shared::pair();
        let fixture = Fixture::unmigrated(BINARY, name, &postgres.address(), &broker);
        let mut fixture = with_fast_cleaner(fixture);
        let topic = fixture.create_topic("events", 1, &[]);
        fixture.client().batch_execute(&format!("CREATE TABLE outbox ({columns})")).unwrap();
        fixture.migrate();
        fixture.start_relay().wait_ready(SOON);
        let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '{}')";
        fixture.client().execute(sql, &[&topic]).unwrap();
        fixture.consumer().read_n(1, SOON);
        wait_until("the warning", SOON, || fixture.relay().log().contains(what));
        let rows = fixture.client().query("SELECT FROM outbox", &[]).unwrap().len();
        assert_eq!(rows, 1);
    }
}

#[test]
fn rows_with_other_ids_are_cleaned_too() {
    let (postgres, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, "clean_uuid", &postgres.address(), &broker);
    let mut fixture = with_fast_cleaner(fixture);
    let topic = fixture.create_topic("events", 1, &[]);
    let sql = "CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), topic text, payload json,
            created_at timestamptz DEFAULT now())";
    fixture.client().batch_execute(sql).unwrap();
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO outbox (topic, payload, created_at)
        SELECT $1, '{}', now() - n % 2 * interval '2 hours' FROM generate_series(1, 1000) n";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let count = |sql: &str| -> i64 { fixture.client().query_one(sql, &[]).unwrap().get(0) };
    wait_until("the old half to be deleted", SOON, || count("SELECT count(*) FROM outbox") == 500);
    let old = "SELECT count(*) FROM outbox WHERE created_at < now() - interval '1 hour'";
    assert_eq!(count(old), 0);
}
