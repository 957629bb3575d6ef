//! Changes that must not stop a relay.

use super::lapses::fixture_with;
use super::{SOON, assert_published, run, sql, stop, write};
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

/// Waits until the relay has checked the table again and found it intact.
#[track_caller]
fn wait_intact(fixture: &mut Fixture) {
    let mut client = fixture.client();
    let now: String = client.query_one("SELECT pg_current_xact_id()::text", &[]).unwrap().get(0);
    let sql = "SELECT intact_before > $2::text::xid8 FROM postrider.coverage
        WHERE slot = $1 AND outbox = 'public.outbox'::regclass";
    let slot = fixture.slot().to_owned();
    wait_until("the relay to find its table intact", SOON, || {
        assert!(fixture.relay().is_running(), "{}", fixture.relay().log());
        client.query_one(sql, &[&slot, &now]).unwrap().get::<_, Option<bool>>(0) == Some(true)
    });
}

#[track_caller]
fn check(name: &str, publication: &str, statements: &[&str]) {
    let mut fixture = fixture_with(name, publication);
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut all = write(&fixture, "outbox", &topic, "first", 3);
    assert_published(&fixture, &all);
    for statement in statements {
        sql(&fixture, statement);
    }
    // Also with a table that this relay does not read.
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.later");
    run(&fixture, &["migrate"], 0);
    fixture.unset("POSTRIDER_TABLES");
    run(&fixture, &["migrate"], 0);
    wait_intact(&mut fixture);
    all.extend(write(&fixture, "outbox", &topic, "running", 3));
    assert_published(&fixture, &all);
    stop(&mut fixture);
    for statement in statements {
        sql(&fixture, statement);
    }
    fixture.start_relay().wait_ready(SOON);
    all.extend(write(&fixture, "outbox", &topic, "last", 3));
    assert_published(&fixture, &all);
    wait_intact(&mut fixture);
}

const STATEMENTS: &[&str] = &[
    "VACUUM FULL outbox",
    "CLUSTER outbox USING outbox_pkey",
    "TRUNCATE outbox",
    "ANALYZE outbox",
    "GRANT SELECT ON outbox TO PUBLIC",
    "ALTER TABLE outbox ADD COLUMN IF NOT EXISTS more int DEFAULT 7",
    "CREATE INDEX IF NOT EXISTS more ON outbox (more)",
    "VACUUM FULL pg_publication",
    "VACUUM FULL pg_class",
];

#[test]
fn maintenance_of_a_listed_table_does_not_stop_the_relay() {
    let mut statements = STATEMENTS.to_vec();
    statements.extend([
        "CREATE TABLE IF NOT EXISTS other (id int)",
        "ALTER PUBLICATION postrider SET TABLE outbox, other",
    ]);
    check("harmless_listed", "", &statements);
}

#[test]
fn maintenance_of_a_table_published_with_all_tables_does_not_stop_the_relay() {
    check("harmless_all", "CREATE PUBLICATION postrider FOR ALL TABLES", STATEMENTS);
}

#[test]
fn maintenance_of_a_table_published_with_its_schema_does_not_stop_the_relay() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    let publication = "CREATE PUBLICATION postrider FOR TABLES IN SCHEMA public";
    let mut statements = STATEMENTS.to_vec();
    statements.push("CREATE SCHEMA IF NOT EXISTS other");
    statements.push("ALTER PUBLICATION postrider SET TABLES IN SCHEMA public, other");
    check("harmless_schema", publication, &statements);
}

#[test]
fn attaching_and_detaching_partitions_does_not_stop_the_relay() {
    let outbox =
        "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY, topic text, payload json,
             created_at timestamptz DEFAULT now()) PARTITION BY RANGE (id);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (1000000)";
    let change = "DROP TABLE IF EXISTS outbox_2;
         CREATE TABLE outbox_2 (LIKE outbox INCLUDING ALL EXCLUDING IDENTITY);
         ALTER TABLE outbox ATTACH PARTITION outbox_2 FOR VALUES FROM (1000000) TO (2000000);
         ALTER TABLE outbox DETACH PARTITION outbox_2; DROP TABLE outbox_2;
         CREATE TABLE IF NOT EXISTS outbox_3 PARTITION OF outbox
             FOR VALUES FROM (2000000) TO (3000000)";
    check("harmless_partitions", outbox, &[change, "VACUUM FULL outbox_1", "TRUNCATE outbox"]);
}
