//! Existing tables and publications of other owners, and open transactions.

use std::process::Stdio;

use super::{SOON, assert_changes, assert_refuses, empty, inventory, prepared};
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const OUTBOX: &str = "CREATE TABLE outbox (topic text NOT NULL, payload json)";

/// Whether a session of this database waits for a lock in a statement that begins like this.
fn is_waiting(fixture: &Fixture, statement: &str) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND starts_with(query, $1))";
    let row = fixture.client().query_one(sql, &[&statement]).unwrap();
    row.get(0)
}

/// Publishes an event of the table from end to end.
#[track_caller]
fn assert_publishes(fixture: &mut Fixture) {
    let topic = fixture.create_topic("works", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '7')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].value_text(), Some("7"));
}

#[track_caller]
fn check_existing(name: &str, sql: &str) {
    let mut fixture = prepared(name, sql);
    let found = [("found", "table public.outbox"), ("found", "publication postrider")];
    assert_changes(&fixture.run(&["migrate"]), &found);
    assert_publishes(&mut fixture);
}

#[test]
fn an_existing_table_is_used() {
    let mut fixture = prepared("own_table", OUTBOX);
    let changes = [("found", "table public.outbox"), ("created", "publication postrider")];
    assert_changes(&fixture.run(&["migrate"]), &changes);
    // Without the columns that carry an id, only the value identifies the event.
    assert_publishes(&mut fixture);
}

#[test]
fn an_existing_publication_of_all_tables_is_used() {
    let sql = format!("{OUTBOX}; CREATE PUBLICATION postrider FOR ALL TABLES");
    check_existing("all_tables", &sql);
}

#[test]
fn an_existing_publication_of_a_schema_is_used() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    let sql = format!("{OUTBOX}; CREATE PUBLICATION postrider FOR TABLES IN SCHEMA public");
    check_existing("schema", &sql);
}

#[test]
fn a_partitioned_table_published_under_its_own_name_is_used() {
    check_existing(
        "partitioned",
        "CREATE TABLE outbox (topic text, payload json) PARTITION BY HASH (topic);
         CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES WITH (MODULUS 1, REMAINDER 0);
         CREATE PUBLICATION postrider FOR TABLE outbox WITH (publish_via_partition_root = true)",
    );
}

#[test]
fn a_partitioned_table_without_a_publication_gets_one() {
    let mut fixture = prepared(
        "own_partitions",
        "CREATE TABLE outbox (topic text, payload json) PARTITION BY HASH (topic);
         CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    );
    fixture.migrate();
    assert_publishes(&mut fixture);
}

#[test]
fn a_table_can_be_added_while_it_is_written_to() {
    let mut fixture = empty("joins");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.migrate();
    let sql = "CREATE SCHEMA late; CREATE TABLE late.outbox (LIKE outbox INCLUDING ALL)";
    fixture.client().batch_execute(sql).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.outbox,late.outbox");
    let insert = "INSERT INTO late.outbox (topic, payload) VALUES ($1, '{}') RETURNING id::text";

    let mut early = fixture.client();
    let mut early = early.transaction().unwrap();
    early.query_one(insert, &[&topic]).unwrap();
    let mut command = fixture.command(&["migrate"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let migrate = command.spawn().unwrap();
    wait_until("migrate to wait for the open transaction", SOON, || {
        is_waiting(&fixture, "LOCK TABLE")
    });
    let (mut late, late_topic) = (fixture.client(), topic.clone());
    let late = std::thread::spawn(move || {
        late.query_one(insert, &[&late_topic]).unwrap().get::<_, String>(0)
    });
    wait_until("a writer to wait for migrate", SOON, || {
        is_waiting(&fixture, "INSERT INTO late.outbox")
    });
    // It commits before the table is published, like every earlier row. If migrate had not waited,
    // it would commit afterwards and its row would still be missing.
    early.commit().unwrap();
    let output = migrate.wait_with_output().unwrap();
    let changes = [("found", "table late.outbox"), ("updated", "publication postrider")];
    assert_changes(&output, &changes);

    let mut expected = Expected::default();
    expected.push_unordered(&topic, late.join().unwrap());
    let row = fixture.client().query_one(insert, &[&topic]).unwrap();
    expected.push_unordered(&topic, row.get::<_, String>(0));
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
}

#[test]
fn a_long_transaction_on_the_table_makes_migrate_give_up() {
    let mut fixture = prepared("long", OUTBOX);
    fixture.set("POSTRIDER_TABLES", "public.first");
    fixture.migrate();
    let before = inventory(&fixture);
    fixture.set("POSTRIDER_TABLES", "public.first,public.outbox");
    let mut client = fixture.client();
    let mut long = client.transaction().unwrap();
    long.batch_execute("INSERT INTO outbox VALUES ('t', '1')").unwrap();
    let fix = "a long transaction uses the table";
    assert_refuses(&fixture, 1, "SQLSTATE 55P03", fix);
    assert_eq!(inventory(&fixture), before);
    long.commit().unwrap();
    let changes = [("updated", "publication postrider")];
    assert_changes(&fixture.run(&["migrate"]), &changes);
}
