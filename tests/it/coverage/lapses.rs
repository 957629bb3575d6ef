//! The slot may lack rows: detected while the relay runs and at its start, whatever the cause.

use std::time::{Duration, Instant};

use super::{BINARY, SOON, assert_halts, assert_published, promised, run, sql, stop, write};
use crate::harness::halt::{assert_halts_at_start, assert_one_sentence_and_its_fix};
use crate::migrate::print::psql;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

/// As documented. The relay checks every five seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);

const LISTED: &str = "";
const ALL: &str = "CREATE PUBLICATION postrider FOR ALL TABLES";
const SCHEMA: &str = "CREATE PUBLICATION postrider FOR TABLES IN SCHEMA public";

/// A migrated database with this publication.
#[track_caller]
pub(super) fn fixture_with(name: &str, publication: &str) -> Fixture {
    let postgres = shared::postgres().address();
    let fixture = Fixture::unmigrated(BINARY, name, &postgres, &shared::broker());
    sql(&fixture, publication);
    fixture.migrate();
    fixture
}

/// Breaks the promise, once while the relay runs and once while it does not; `repair_sql` may be
/// all that an operator would do. Rows are written in between, and all of them arrive after
/// `recover`.
#[track_caller]
fn check(name: &str, publication: &str, break_sql: &str, repair_sql: &str, message: &str) {
    let mut fixture = fixture_with(name, publication);
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut all = write(&fixture, "outbox", &topic, "first", 10);
    assert_published(&fixture, &all);

    sql(&fixture, break_sql);
    let broken_at = Instant::now();
    let table_is_there = !break_sql.ends_with("DROP TABLE outbox");
    if table_is_there {
        all.extend(write(&fixture, "outbox", &topic, "running", 5));
    }
    sql(&fixture, repair_sql);
    let status = fixture.relay().wait_exit(SOON);
    let (log, took) = (fixture.relay().log(), broken_at.elapsed());
    assert_eq!(status.code(), Some(3), "{log}");
    assert_one_sentence_and_its_fix(&log);
    assert!(log.contains(message) && log.contains("postrider recover"), "{log}");
    assert!(took < NOTICED_WITHIN, "detected after {took:?}");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &all);

    stop(&mut fixture);
    sql(&fixture, break_sql);
    if table_is_there {
        all.extend(write(&fixture, "outbox", &topic, "stopped", 5));
    }
    sql(&fixture, repair_sql);
    assert_halts_at_start(&mut fixture, message, "postrider recover");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    all.extend(write(&fixture, "outbox", &topic, "last", 5));
    assert_published(&fixture, &all);
    let printed = run(&fixture, &["recover", "--dry-run"], 0);
    assert!(printed.contains("nothing to recover"), "{printed}");
    assert_eq!(promised(&fixture), ["outbox"]);
}

#[test]
fn a_table_removed_from_the_publication_is_detected() {
    let drop = "ALTER PUBLICATION postrider DROP TABLE outbox";
    check("lapse_dropped", LISTED, drop, "", "was not in publication");
}

#[test]
fn a_table_removed_from_the_publication_for_a_moment_is_detected() {
    let drop = "ALTER PUBLICATION postrider DROP TABLE outbox";
    let add = "ALTER PUBLICATION postrider ADD TABLE outbox";
    check("lapse_moment", LISTED, drop, add, "was not in publication");
}

/// A row deleted in the transaction that wrote it exists only in the slot.
#[test]
fn rows_deleted_at_once_survive_the_recovery_of_a_lapse() {
    let mut fixture = fixture_with("lapse_deleted", LISTED);
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, "outbox", &topic, "first", 1);
    assert_published(&fixture, &first);
    stop(&mut fixture);
    let insert = format!("INSERT INTO outbox (topic, payload) VALUES ('{topic}', '\"deleted\"')");
    sql(&fixture, &format!("BEGIN; {insert}; DELETE FROM outbox; COMMIT"));
    sql(&fixture, "ALTER PUBLICATION postrider DROP TABLE outbox");
    let lost = write(&fixture, "outbox", &topic, "lost", 1);
    sql(&fixture, "ALTER PUBLICATION postrider ADD TABLE outbox");
    let printed = run(&fixture, &["recover"], 0);
    assert!(printed.contains("kept the slot"), "{printed}");
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &lost);
    assert_published(&fixture, &["\"deleted\"".to_owned()]);
}

/// The names are not reused: there is one more each time.
const REPLACE: &str = "DO $$ BEGIN
        EXECUTE format('ALTER TABLE outbox RENAME TO %I', 'outbox_' || txid_current());
        EXECUTE 'CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            topic text NOT NULL, payload json, created_at timestamptz NOT NULL DEFAULT now())';
    END $$";
const RECREATE: &str = "DROP TABLE outbox; CREATE TABLE outbox (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        topic text NOT NULL, payload json, created_at timestamptz NOT NULL DEFAULT now())";

#[test]
fn a_table_replaced_by_renaming_is_detected() {
    check("lapse_replaced", LISTED, REPLACE, "", "was replaced by another table");
}

#[test]
fn a_dropped_and_recreated_table_is_detected() {
    check("lapse_recreated", LISTED, RECREATE, "", "was replaced by another table");
}

#[test]
fn a_replaced_table_is_detected_where_all_tables_are_published() {
    check("lapse_replaced_all", ALL, REPLACE, "", "was replaced by another table");
}

#[test]
fn inserts_not_published_for_a_moment_are_detected() {
    let off = "ALTER PUBLICATION postrider SET (publish = 'update')";
    let on = "ALTER PUBLICATION postrider SET (publish = 'insert')";
    check("lapse_publish", LISTED, off, on, "its options changed");
    check("lapse_publish_all", ALL, off, on, "its options changed");
}

/// A change of owner rewrites the same catalog row, and must not hide other changes to it.
#[test]
fn inserts_not_published_before_a_change_of_owner_are_detected() {
    let mut fixture = fixture_with("lapse_owner", LISTED);
    let topic = fixture.create_topic("events", 1, &[]);
    sql(&fixture, "ALTER PUBLICATION postrider SET (publish = 'update')");
    let lost = write(&fixture, "outbox", &topic, "lost", 3);
    let role = "DO $$ BEGIN CREATE ROLE next_owner SUPERUSER;
        EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    sql(&fixture, role);
    sql(&fixture, "ALTER PUBLICATION postrider SET (publish = 'insert')");
    sql(&fixture, "ALTER PUBLICATION postrider OWNER TO next_owner");
    assert_halts_at_start(&mut fixture, "its options changed", "postrider recover");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &lost);
}

#[test]
fn a_schema_removed_from_the_publication_for_a_moment_is_detected() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    let drop = "ALTER PUBLICATION postrider DROP TABLES IN SCHEMA public";
    let add = "ALTER PUBLICATION postrider ADD TABLES IN SCHEMA public";
    check("lapse_schema", SCHEMA, drop, add, "was not in publication");
}

#[test]
fn a_table_moved_out_of_its_published_schema_for_a_moment_is_detected() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    let out = "CREATE SCHEMA IF NOT EXISTS aside; ALTER TABLE outbox SET SCHEMA aside";
    let insert = "INSERT INTO aside.outbox (topic, payload) VALUES ('nowhere', '1')";
    let back = format!("{insert}; ALTER TABLE aside.outbox SET SCHEMA public");
    check("lapse_moved", SCHEMA, &format!("{out}; {back}"), "", "was not in publication");
}

#[test]
fn a_table_that_was_unlogged_for_a_moment_is_detected() {
    let off = "ALTER TABLE outbox SET UNLOGGED";
    let on = "ALTER TABLE outbox SET LOGGED";
    check("lapse_unlogged", ALL, off, on, "UNLOGGED");
}

#[test]
fn a_partition_that_becomes_unlogged_is_detected() {
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "lapse_partition", &postgres, &shared::broker());
    sql(
        &fixture,
        "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY, topic text, payload json,
             created_at timestamptz DEFAULT now()) PARTITION BY RANGE (created_at);
         CREATE TABLE outbox_all PARTITION OF outbox DEFAULT",
    );
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    sql(&fixture, "ALTER TABLE outbox_all SET UNLOGGED");
    let all = write(&fixture, "outbox", &topic, "unlogged", 5);
    assert_halts(&mut fixture, &["is UNLOGGED", "postrider recover"]);
    sql(&fixture, "ALTER TABLE outbox_all SET LOGGED");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &all);
}

/// No relay sees it while it is unlogged.
#[test]
fn a_partition_that_was_unlogged_while_no_relay_ran_is_detected() {
    let mut fixture = fixture_with(
        "lapse_partition_past",
        "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY, topic text, payload json,
             created_at timestamptz DEFAULT now()) PARTITION BY RANGE (id);
         CREATE TABLE half PARTITION OF outbox FOR VALUES FROM (1) TO (1000) PARTITION BY RANGE (id);
         CREATE TABLE leaf PARTITION OF half DEFAULT",
    );
    let topic = fixture.create_topic("events", 1, &[]);
    sql(&fixture, "ALTER TABLE leaf SET UNLOGGED");
    let lost = write(&fixture, "outbox", &topic, "lost", 3);
    sql(&fixture, "ALTER TABLE leaf SET LOGGED");
    assert_halts_at_start(&mut fixture, "UNLOGGED for a time", "postrider recover");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &lost);
}

/// The publication's entry is for the table two levels above.
#[test]
fn a_partition_whose_parent_was_detached_for_a_moment_is_detected() {
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "lapse_parent", &postgres, &shared::broker());
    sql(
        &fixture,
        "CREATE TABLE root (id bigint GENERATED ALWAYS AS IDENTITY, topic text, payload json,
             created_at timestamptz DEFAULT now()) PARTITION BY RANGE (id);
         CREATE TABLE half PARTITION OF root FOR VALUES FROM (1) TO (1000) PARTITION BY RANGE (id);
         CREATE TABLE leaf PARTITION OF half DEFAULT;
         CREATE PUBLICATION postrider FOR TABLE root WITH (publish = 'insert')",
    );
    fixture.set("POSTRIDER_TABLES", "public.leaf");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    sql(&fixture, "ALTER TABLE root DETACH PARTITION half");
    let insert = "INSERT INTO half (id, topic, payload) VALUES (7, $1, '\"lost\"')";
    fixture.client().execute(insert, &[&topic]).unwrap();
    sql(&fixture, "ALTER TABLE root ATTACH PARTITION half FOR VALUES FROM (1) TO (1000)");
    assert_halts_at_start(&mut fixture, "was not in publication", "postrider recover");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &["\"lost\"".to_owned()]);
}

#[test]
fn migrate_does_not_silently_promise_a_replaced_table() {
    let mut fixture = fixture_with("lapse_migrate", LISTED);
    let topic = fixture.create_topic("events", 1, &[]);
    sql(&fixture, REPLACE);
    let lost = write(&fixture, "outbox", &topic, "lost", 3);
    let before = promised(&fixture);
    let printed = run(&fixture, &["migrate"], 3);
    assert!(printed.contains("was replaced") && printed.contains("postrider recover"), "{printed}");
    let output = psql(&fixture, &run(&fixture, &["migrate", "--print"], 0));
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_refused = errors.contains("dropped, renamed or replaced");
    assert!(!output.status.success() && is_refused, "{errors}");
    assert_eq!(promised(&fixture), before);
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &lost);
    stop(&mut fixture);
    run(&fixture, &["migrate"], 0);
}

#[test]
fn possibly_missing_rows_of_the_replaced_table_are_not_forgotten() {
    let mut fixture = fixture_with("lapse_earlier", LISTED);
    let topic = fixture.create_topic("events", 1, &[]);
    // They are in the slot and nowhere else: they have not been read.
    let mut all = write(&fixture, "outbox", &topic, "earlier", 3);
    sql(&fixture, "ALTER TABLE outbox RENAME TO earlier");
    sql(&fixture, "CREATE TABLE outbox (LIKE earlier INCLUDING ALL)");
    all.extend(write(&fixture, "outbox", &topic, "new", 3));
    let printed = run(&fixture, &["recover"], 3);
    assert!(printed.contains("public.earlier") && printed.contains("postgres.tables"), "{printed}");
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.earlier");
    run(&fixture, &["recover"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &all);
}

#[test]
fn promises_of_an_earlier_version_are_adopted_if_they_are_right() {
    let mut fixture = fixture_with("lapse_old", LISTED);
    let topic = fixture.create_topic("events", 1, &[]);
    let forget = "UPDATE postrider.coverage SET table_state = NULL, schema_name = NULL,
        table_name = NULL, publication_xmin = NULL, publication_owner = NULL";
    sql(&fixture, forget);
    fixture.start_relay().wait_ready(SOON);
    wait_until("the promise is adopted", SOON, || {
        let sql = "SELECT count(*) = 1 FROM postrider.coverage
            WHERE table_state IS NOT NULL AND (schema_name, table_name) = ('public', 'outbox')";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    stop(&mut fixture);
    sql(&fixture, forget);
    sql(&fixture, "ALTER PUBLICATION postrider DROP TABLE outbox");
    let lost = write(&fixture, "outbox", &topic, "lost", 3);
    sql(&fixture, "ALTER PUBLICATION postrider ADD TABLE outbox");
    assert_halts_at_start(&mut fixture, "was not in publication", "postrider recover");
    run(&fixture, &["recover"], 0);
    assert_published(&fixture, &lost);
}
