//! A table promised through a publication that the relay does not read: its rows never arrive, so
//! they could not stop the relay.

use super::{BINARY, SOON, assert_halts, assert_published, promised, run, sql, stop, write};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::instances::{interrupt_standby, start_second, status};
use crate::harness::rig::wait_caught_up;
use crate::migrate::print::psql;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

const UNSEEN: &str = "publication \"second\" does not send them";
const WITHDRAW: &str = "`postrider migrate --withdraw public.outbox`";

/// Another outbox table, in the publication of a second configuration. The slot must be younger.
const SECOND: &str = "CREATE TABLE later (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        topic text NOT NULL, payload json, created_at timestamptz NOT NULL DEFAULT now());
    CREATE PUBLICATION second FOR TABLE later WITH (publish = 'insert')";

/// A relay with the first publication, and the objects for another one.
#[track_caller]
fn started(name: &str, second: &str) -> (Fixture, String) {
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, name, &postgres, &shared::broker());
    sql(&fixture, second);
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let before = write(&fixture, "outbox", &topic, "before", 3);
    assert_published(&fixture, &before);
    (fixture, topic)
}

fn read_second(fixture: &mut Fixture) {
    fixture.set("POSTRIDER_TABLES", "public.later").set("POSTRIDER_PUBLICATION", "second");
}

fn read_first(fixture: &mut Fixture) {
    fixture.unset("POSTRIDER_TABLES").unset("POSTRIDER_PUBLICATION");
}

#[test]
fn a_relay_with_another_publication_does_not_start() {
    let (mut fixture, topic) = started("elsewhere_start", SECOND);
    stop(&mut fixture);
    let waiting = write(&fixture, "outbox", &topic, "waiting", 5);
    read_second(&mut fixture);
    let log = assert_halts_at_start(&mut fixture, UNSEEN, WITHDRAW);
    assert!(log.contains("rows of public.outbox (publication \"postrider\")"), "{log}");
    // A recovery does not leave them out either.
    let printed = run(&fixture, &["recover"], 3);
    assert!(printed.contains(UNSEEN) && printed.contains(WITHDRAW), "{printed}");
    assert_eq!(promised(&fixture), ["outbox"]);
    read_first(&mut fixture);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &waiting);
    stop(&mut fixture);
    // Once the promise is withdrawn, the relay misses nothing.
    read_second(&mut fixture);
    run(&fixture, &["migrate", "--withdraw", "outbox"], 0);
    run(&fixture, &["migrate"], 0);
    let written = write(&fixture, "later", &topic, "later", 3);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &written);
}

#[test]
fn a_standby_with_another_publication_does_not_take_over() {
    let (mut fixture, topic) = started("elsewhere_standby", SECOND);
    read_second(&mut fixture);
    let second = start_second(&fixture);
    read_first(&mut fixture);
    stop(&mut fixture);
    let waiting = write(&fixture, "outbox", &topic, "waiting", 3);
    wait_until("the standby to report why it does not take over", SOON, || {
        let reason = status(&second)["reason"].as_str().unwrap_or_default().to_owned();
        reason.contains("does not take over") && reason.contains("(publication \"postrider\")")
    });
    interrupt_standby(&fixture, &second);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &waiting);
}

#[test]
fn migrate_promises_only_what_the_slots_relay_receives() {
    let (mut fixture, topic) = started("elsewhere_migrate", SECOND);
    read_second(&mut fixture);
    let printed = run(&fixture, &["migrate"], 3);
    assert!(printed.contains(UNSEEN) && printed.contains(WITHDRAW), "{printed}");
    let output = psql(&fixture, &run(&fixture, &["migrate", "--print"], 0));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("would be skipped unnoticed"), "{errors}");
    assert_eq!(promised(&fixture), ["outbox"]);
    // An earlier version would promise it anyway.
    let slot = fixture.slot().to_owned();
    let promise = format!(
        "INSERT INTO postrider.coverage (slot, outbox, membership, since)
         SELECT '{slot}', prrelid, oid, pg_snapshot_xmax(pg_current_snapshot())
           FROM pg_publication_rel WHERE prrelid = 'later'::regclass"
    );
    sql(&fixture, &promise);
    let waiting = write(&fixture, "later", &topic, "waiting", 3);
    read_first(&mut fixture);
    let printed = "rows of public.later (publication \"second\") are promised";
    assert_halts(&mut fixture, &[printed, "--withdraw public.later"]);
    assert_halts_at_start(&mut fixture, printed, "--withdraw public.later");
    // They were not skipped.
    read_second(&mut fixture);
    run(&fixture, &["migrate", "--withdraw", "outbox"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(&fixture, &waiting);
}

/// Then the first row stops the relay, as with a single publication.
#[track_caller]
fn check_first_row_stops_it(name: &str, second: &str) {
    let (mut fixture, topic) = started(name, second);
    stop(&mut fixture);
    read_second(&mut fixture);
    fixture.start_relay().wait_ready(SOON);
    let before = write(&fixture, "later", &topic, "later", 3);
    assert_published(&fixture, &before);
    wait_caught_up(&mut fixture);
    assert!(fixture.relay().is_running(), "{}", fixture.relay().log());
    let waiting = write(&fixture, "outbox", &topic, "waiting", 3);
    go_back(&mut fixture, &waiting);
}

/// The relay has received rows of a table that it does not read, and has promised the one that it
/// reads.
#[track_caller]
fn go_back(fixture: &mut Fixture, waiting: &[String]) {
    assert_halts(fixture, &["received rows of public.outbox, which"]);
    read_first(fixture);
    let printed = "rows of public.later (publication \"second\") are promised";
    assert_halts_at_start(fixture, printed, "--withdraw public.later");
    run(fixture, &["migrate", "--withdraw", "public.later"], 0);
    fixture.start_relay().wait_ready(SOON);
    assert_published(fixture, waiting);
}

const OUTBOX: &str = "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        topic text NOT NULL, payload json, created_at timestamptz NOT NULL DEFAULT now());";

#[test]
fn the_first_row_of_a_table_in_both_publications_stops_the_relay() {
    let both = "ALTER PUBLICATION second ADD TABLE outbox";
    check_first_row_stops_it("elsewhere_both", &format!("{OUTBOX}{SECOND};{both}"));
}

#[test]
fn the_first_row_of_a_table_published_with_all_tables_stops_the_relay() {
    let second = SECOND.replace("FOR TABLE later", "FOR ALL TABLES");
    check_first_row_stops_it("elsewhere_all", &second);
}

#[test]
fn the_first_row_of_a_table_published_with_its_schema_stops_the_relay() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    let second = SECOND.replace("FOR TABLE later", "FOR TABLES IN SCHEMA public");
    check_first_row_stops_it("elsewhere_schema", &second);
}

#[test]
fn a_table_sent_with_a_row_filter_counts_as_not_sent() {
    if shared::postgres_is_without("row filters", 15) {
        return;
    }
    let filtered = "ALTER PUBLICATION second ADD TABLE outbox WHERE (topic = 'another')";
    let (mut fixture, _) = started("elsewhere_filter", &format!("{OUTBOX}{SECOND};{filtered}"));
    stop(&mut fixture);
    read_second(&mut fixture);
    assert_halts_at_start(&mut fixture, UNSEEN, WITHDRAW);
}

/// The partition was promised, and the other publication sends its rows under the table's name.
#[test]
fn rows_of_a_promised_partition_can_be_sent_as_rows_of_its_table() {
    let partitioned = "CREATE TABLE whole (id bigint GENERATED ALWAYS AS IDENTITY, topic text,
             payload json, created_at timestamptz DEFAULT now()) PARTITION BY RANGE (id);
         CREATE TABLE outbox PARTITION OF whole DEFAULT;
         ALTER PUBLICATION second SET (publish_via_partition_root = true);
         ALTER PUBLICATION second ADD TABLE whole";
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "elsewhere_leaf", &postgres, &shared::broker());
    sql(&fixture, &format!("{SECOND};{partitioned}"));
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    read_second(&mut fixture);
    fixture.start_relay().wait_ready(SOON);
    let waiting = write(&fixture, "whole", &topic, "waiting", 3);
    go_back(&mut fixture, &waiting);
}

/// Independent slots in one database.
#[test]
fn relays_of_other_slots_and_publications_are_not_affected() {
    let (mut fixture, topic) = started("elsewhere_several", SECOND);
    let mut second = Fixture::unmigrated(BINARY, "second", fixture.postgres(), fixture.broker());
    let slot = second.slot().to_owned();
    let own = ["POSTRIDER_SLOT", "POSTRIDER_HTTP_LISTEN"];
    for (name, value) in fixture.env() {
        if !own.contains(&name.as_str()) {
            second.set(name, value);
        }
    }
    read_second(&mut second);
    second.migrate();
    second.start_relay().wait_ready(SOON);
    let mut written = write(&fixture, "outbox", &topic, "first", 3);
    written.extend(write(&fixture, "later", &topic, "second", 3));
    assert_published(&fixture, &written);
    run(&fixture, &["migrate"], 0);
    run(&second, &["migrate"], 0);
    stop(&mut second);
    fixture.postgres().drop_slot(&slot).unwrap();
    assert!(fixture.relay().is_running(), "{}", fixture.relay().log());
}

/// A dropped table needs no relay.
#[test]
fn a_dropped_promised_table_does_not_stop_a_relay_with_another_publication() {
    let (mut fixture, topic) = started("elsewhere_dropped", SECOND);
    stop(&mut fixture);
    sql(&fixture, "DROP TABLE outbox");
    read_second(&mut fixture);
    fixture.start_relay().wait_ready(SOON);
    let written = write(&fixture, "later", &topic, "later", 3);
    assert_published(&fixture, &written);
}
