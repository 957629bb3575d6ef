//! A table promised by another configuration of the slot.

use super::{BINARY, SOON, assert_halts, assert_published, promised, run, sql, stop, write};
use crate::harness::instances::{interrupt_standby, start_second, status};
use crate::harness::rig::wait_caught_up;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const ONE: &str = "public.outbox";
const BOTH: &str = "public.outbox,public.later";

/// A relay that reads one table, after a migration promised another.
fn joined(mut fixture: Fixture) -> (Fixture, String) {
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    fixture.set("POSTRIDER_CLEANER_INTERVAL", "100ms");
    fixture.start_relay().wait_ready(SOON);
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.migrate();
    fixture.set("POSTRIDER_TABLES", ONE);
    (fixture, topic)
}

#[track_caller]
fn check_first_row_stops_it(fixture: Fixture) {
    let (mut fixture, topic) = joined(fixture);
    assert_eq!(promised(&fixture), ["later", "outbox"]);
    // Nothing is wrong until a row arrives.
    let before = write(&fixture, "outbox", &topic, "before", 20);
    assert_published(&fixture, &before);
    assert!(fixture.relay().is_running(), "{}", fixture.relay().log());
    let mut skipped = write(&fixture, "later", &topic, "skipped", 10);
    let withdraw = "`postrider migrate --withdraw public.later`";
    assert_halts(
        &mut fixture,
        &["promised for slot", "received rows of public.later, which", withdraw],
    );
    // It stops there at every start.
    fixture.start_relay();
    assert_halts(
        &mut fixture,
        &["will stop at the first row", "received rows of public.later, which"],
    );
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.start_relay().wait_ready(SOON);
    skipped.extend(write(&fixture, "outbox", &topic, "after", 5));
    assert_published(&fixture, &skipped);
    wait_until("published rows are deleted", SOON, || {
        write(&fixture, "later", &topic, "more", 1);
        let sql = "SELECT count(*) FROM later WHERE payload::text LIKE '%skipped%'";
        fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) == 0
    });
}

#[test]
fn the_first_row_of_a_table_that_migrate_added_stops_a_relay_that_does_not_read_it() {
    check_first_row_stops_it(Fixture::new(BINARY, "promise_added"));
}

#[test]
fn the_first_row_of_a_promised_table_stops_the_relay_where_all_tables_are_published() {
    let postgres = shared::postgres().address();
    let fixture = Fixture::unmigrated(BINARY, "promise_all", &postgres, &shared::broker());
    let publication = "CREATE PUBLICATION postrider FOR ALL TABLES";
    sql(&fixture, publication);
    sql(&fixture, "CREATE TABLE other (id int)");
    fixture.migrate();
    sql(&fixture, "INSERT INTO other SELECT generate_series(1, 100)");
    check_first_row_stops_it(fixture);
}

#[test]
fn a_renamed_table_is_still_the_promised_one() {
    let (mut fixture, topic) = joined(Fixture::new(BINARY, "promise_renamed"));
    sql(&fixture, "ALTER TABLE later RENAME TO renamed");
    let skipped = write(&fixture, "renamed", &topic, "skipped", 3);
    assert_halts(&mut fixture, &["promised for slot", "public.later"]);
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.renamed");
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &skipped);
}

/// The promised table has a partition, and the running relay does not read it.
fn joined_by_partitioned(name: &str) -> (Fixture, String) {
    let mut fixture = Fixture::new(BINARY, name);
    sql(
        &fixture,
        "CREATE TABLE later (id bigint GENERATED ALWAYS AS IDENTITY, topic text, payload json,
             created_at timestamptz DEFAULT now()) PARTITION BY RANGE (created_at);
         CREATE TABLE later_all PARTITION OF later DEFAULT",
    );
    fixture.set("POSTRIDER_CLEANER_ENABLED", "false");
    joined(fixture)
}

#[test]
fn rows_of_a_partition_count_as_rows_of_the_promised_table() {
    let (mut fixture, topic) = joined_by_partitioned("promise_partition");
    let skipped = write(&fixture, "later", &topic, "skipped", 3);
    assert_halts(&mut fixture, &["received rows of public.later, which"]);
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &skipped);
}

#[test]
fn rows_sent_under_the_name_of_a_partition_count_as_rows_of_the_promised_table() {
    let (mut fixture, topic) = joined_by_partitioned("promise_leaf");
    // The promise as an earlier version stored it, without the publication's options.
    let via_root = |via_root: bool| {
        format!(
            "BEGIN; ALTER PUBLICATION postrider SET (publish_via_partition_root = {via_root});
             UPDATE postrider.coverage SET table_state = NULL, publication_xmin = NULL,
                 publication_owner = NULL; COMMIT"
        )
    };
    sql(&fixture, &via_root(false));
    let skipped = write(&fixture, "later", &topic, "skipped", 3);
    assert_halts(&mut fixture, &["received rows of public.later, which"]);
    sql(&fixture, &via_root(true));
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &skipped);
}

/// With a publication of all tables, more tables can be written at once than the relay tracks
/// separately.
#[test]
fn a_promised_table_is_not_overlooked_among_very_many_others() {
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "promise_many", &postgres, &shared::broker());
    let topic = fixture.create_topic("events", 1, &[]);
    sql(&fixture, "CREATE PUBLICATION postrider FOR ALL TABLES");
    let each = |statement: &str| {
        format!(
            "DO $$ BEGIN FOR n IN 1..1100 LOOP EXECUTE format('{statement}', n); END LOOP; END $$"
        )
    };
    sql(&fixture, &each("CREATE TABLE other_%s (id int)"));
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let write_to_all = each("INSERT INTO other_%s VALUES (1)");
    // As long as no other table is promised, it does not matter which they are.
    sql(&fixture, &write_to_all);
    let before = write(&fixture, "outbox", &topic, "before", 20);
    assert_published(&fixture, &before);
    wait_caught_up(&mut fixture);
    assert!(fixture.relay().is_running(), "{}", fixture.relay().log());
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.migrate();
    fixture.set("POSTRIDER_TABLES", ONE);
    // In one transaction, so that no position is stored in between.
    let insert = format!("INSERT INTO later (topic, payload) VALUES ('{topic}', '\"late\"')");
    sql(&fixture, &format!("BEGIN; {write_to_all}; {insert}; COMMIT"));
    assert_halts(&mut fixture, &["promised for slot", "received rows of public.later, which"]);
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &["\"late\"".to_owned()]);
}

#[test]
fn a_configuration_with_fewer_tables_does_not_end_a_promise() {
    let (mut fixture, topic) = joined(Fixture::new(BINARY, "promise_fewer"));
    stop(&mut fixture);
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let log = fixture.relay().log();
    assert!(log.contains("will stop at the first row") && log.contains("public.later"), "{log}");
    assert_eq!(promised(&fixture), ["later", "outbox"]);
    stop(&mut fixture);
    // A new slot would begin after some of its rows.
    write(&fixture, "later", &topic, "waiting", 1);
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let printed = run(&fixture, &["recover"], 3);
    assert!(
        printed.contains("public.later is promised") && printed.contains("--withdraw"),
        "{printed}"
    );
}

#[test]
fn a_standby_that_reads_fewer_tables_does_not_take_over() {
    let (mut fixture, topic) = joined(Fixture::new(BINARY, "promise_standby"));
    let less = start_second(&fixture);
    stop(&mut fixture);
    wait_until("the standby to report why it does not take over", SOON, || {
        let reason = status(&less)["reason"].as_str().unwrap_or_default().to_owned();
        reason.contains("does not take over") && reason.contains("public.later")
    });
    assert_eq!(status(&less)["state"], "standby");
    let (code, body) = less.http_get("/readyz").unwrap();
    assert!(code == 503 && body.contains("does not take over"), "{code} {body}");
    assert!(fixture.slot_holder().is_none(), "the slot is held");
    interrupt_standby(&fixture, &less);
    // It does not publish rows from the tables either: that is left to instances that read all
    // tables.
    let slot = fixture.slot();
    let job = "INSERT INTO postrider.backfill (slot, kind) VALUES";
    sql(&fixture, &format!("{job} ('{slot}', 'recover')"));
    interrupt_standby(&fixture, &less);
    sql(&fixture, &format!("DELETE FROM postrider.backfill WHERE slot = '{slot}'"));
    fixture.set("POSTRIDER_TABLES", BOTH);
    fixture.start_relay().wait_ready(SOON);
    let written = write(&fixture, "later", &topic, "later", 3);
    assert_published(&fixture, &written);
    stop(&mut fixture);
    // Once the promise is withdrawn, the relay misses nothing.
    fixture.set("POSTRIDER_TABLES", ONE);
    run(&fixture, &["migrate", "--withdraw", "later"], 0);
    wait_until("the standby to stream", SOON, || status(&less)["state"] == "streaming");
}
