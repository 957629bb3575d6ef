//! Events that are parked, dead or discarded are not published again from the table.

use std::time::Duration;

use crate::harness::slot::wait_confirmed;
use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(3);

/// Two unpublishable events, one of them discarded; then the slot is lost, and their topic is
/// created.
fn lost_with_dead_events(name: &str) -> (Fixture, String, String) {
    lost_from_table(name, "")
}

/// The same with another table.
fn lost_from_table(name: &str, alter: &str) -> (Fixture, String, String) {
    let mut fixture = Fixture::new(BINARY, name);
    fixture.client().batch_execute(alter).unwrap();
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    let good = fixture.create_topic("good", 1, &[]);
    let bad = fixture.topic("bad");
    fixture.start_relay().wait_ready(SOON);
    for (topic, key) in [(&bad, "discarded"), (&bad, "dead"), (&good, "good")] {
        write(&fixture, topic, key);
    }
    wait_until("both are dead", SOON, || {
        let sql = "SELECT count(*) = 2 FROM postrider.undelivered WHERE status = 'dead'";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    let discard = fixture.run(&["dead", "discard", "--key", "discarded", "--yes"]);
    assert!(discard.status.success(), "{}", String::from_utf8_lossy(&discard.stderr));
    wait_confirmed(&fixture);
    stop(&mut fixture);
    lose_slot(&fixture);
    fixture.create_topic("bad", 1, &[]);
    write(&fixture, &bad, "new");
    (fixture, good, bad)
}

fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
}

/// From now on every row might be missing.
fn lose_slot(fixture: &Fixture) {
    let sql = "SELECT pg_drop_replication_slot($1)";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    let sql = "UPDATE postrider.progress SET done_before = NULL WHERE slot = $1";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
}

fn write(fixture: &Fixture, topic: &str, key: &str) {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload) VALUES ($1, $2, '{}')";
    fixture.client().execute(sql, &[&topic, &key]).unwrap();
}

fn keys(records: &[Received]) -> Vec<&str> {
    records.iter().filter_map(Received::key_text).collect()
}

#[test]
fn discarded_and_dead_events_are_left_out_and_counted() {
    let (mut fixture, _, bad) = lost_with_dead_events("recover_dead");
    let output = fixture.run(&["recover"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("2  rows of public.outbox may be missing"), "{stdout}");
    assert!(stdout.contains("1  more are left out, their events are dead"), "{stdout}");
    assert!(stdout.contains("1  more are left out, their events are discarded"), "{stdout}");
    fixture.start_relay().wait_ready(SOON);
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), ["new"]);
    // The dead one is published when it is replayed, once.
    assert!(fixture.run(&["replay", "--all"]).status.success());
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), ["new", "dead"]);
}

const RENAME: &str = "ALTER TABLE public.outbox RENAME TO events";

/// The table was renamed, and the configuration was updated.
#[test]
fn events_parked_under_an_earlier_table_name_are_left_out_too() {
    let (mut fixture, _, bad) = lost_with_dead_events("recover_renamed");
    fixture.client().batch_execute(RENAME).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.events");
    for (flags, code) in [(&["recover", "--dry-run"][..], 0), (&["recover"], 0)] {
        let output = fixture.run(flags);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stdout}{errors}");
        assert!(stdout.contains("1  more are left out, their events are dead"), "{stdout}");
        assert!(stdout.contains("1  more are left out, their events are discarded"), "{stdout}");
    }
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), ["new"]);
    // From now on they are found under the new name.
    let output = fixture.run(&["dead", "list", "--table", "public.events"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("public.events"), "{output:?}");
}

/// A relay has already run with the new name, and only the entries still have the earlier one.
#[test]
fn events_parked_under_an_earlier_table_name_are_left_out_even_if_a_relay_used_the_new_name() {
    let mut fixture = Fixture::new(BINARY, "renamed_before");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    let bad = fixture.topic("bad");
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &bad, "dead");
    wait_until("it is dead", SOON, || {
        let sql = "SELECT count(*) = 1 FROM postrider.undelivered WHERE status = 'dead'";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    wait_confirmed(&fixture);
    stop(&mut fixture);
    fixture.client().batch_execute(RENAME).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.events");
    fixture.start_relay().wait_ready(SOON);
    stop(&mut fixture);
    lose_slot(&fixture);
    fixture.create_topic("bad", 1, &[]);
    let output = fixture.run(&["recover"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("1  more are left out, their events are dead"), "{stdout}");
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), Vec::<&str>::new());
}

#[test]
fn entries_of_another_slot_or_of_other_rows_with_the_same_ids_do_not_count() {
    let (fixture, _, bad) = lost_with_dead_events("recover_others");
    let mut client = fixture.client();
    // One belongs to another existing slot; the other was created from an earlier row with the same
    // id.
    let another = format!("{}_2", fixture.slot());
    let sql = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    client.execute(sql, &[&another]).unwrap();
    let sql = "UPDATE postrider.undelivered SET slot = $1 WHERE ordering_key = 'dead'";
    assert_eq!(client.execute(sql, &[&another]).unwrap(), 1);
    let sql =
        "UPDATE postrider.undelivered SET idempotency_key = 'another', created_at = '2020-01-01'
        WHERE ordering_key = 'discarded'";
    assert_eq!(client.execute(sql, &[]).unwrap(), 1);
    let output = fixture.run(&["recover"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(!stdout.contains("left out"), "{stdout}");
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), ["discarded", "dead", "new"]);
    client.execute("SELECT pg_drop_replication_slot($1)", &[&another]).unwrap();
}

/// Without idempotency keys, rows are matched by their ids and times.
#[test]
fn rows_without_idempotency_keys_are_left_out_too() {
    let alter = "ALTER TABLE public.outbox ALTER COLUMN idempotency_key DROP NOT NULL,
        ALTER COLUMN idempotency_key DROP DEFAULT";
    let (fixture, _, bad) = lost_from_table("recover_null_keys", alter);
    // This is not the row of the entry: that one existed before.
    let sql = "UPDATE public.outbox SET created_at = now() + interval '1 minute'
        WHERE ordering_key = 'dead'";
    assert_eq!(fixture.client().execute(sql, &[]).unwrap(), 1);
    let output = fixture.run(&["recover"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("1  more are left out, their events are discarded"), "{stdout}");
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), ["new"]);
    assert!(!stdout.contains("their events are dead"), "{stdout}");
}

/// The slot was renamed, and the new slot begins with the rows of the table.
#[test]
fn a_snapshot_leaves_out_discarded_and_dead_events_of_a_dropped_slot() {
    let (mut fixture, _, bad) = lost_with_dead_events("snapshot_dead");
    fixture.set("POSTRIDER_SLOT", &format!("{}_new", fixture.slot()));
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    // A later event of the same key: anything published after it would be out of order.
    write(&fixture, &bad, "discarded");
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let records = Consumer::new(fixture.broker(), &[&bad]).drain_quiet(QUIET);
    assert_eq!(keys(&records), ["new", "discarded"]);
    let log = fixture.relay().log();
    for status in ["dead", "discarded"] {
        assert!(log.contains(&format!("status=\"{status}\" rows=1")), "{log}");
    }
}

#[test]
fn a_discarded_event_is_remembered_as_long_as_its_row_exists() {
    let mut fixture = Fixture::new(BINARY, "discarded_kept");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "1");
    fixture.set("POSTRIDER_UNDELIVERED_RETENTION", "1s");
    let bad = fixture.topic("bad");
    fixture.start_relay().wait_ready(SOON);
    for key in ["kept", "gone"] {
        write(&fixture, &bad, key);
    }
    let count = |fixture: &Fixture, condition: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM postrider.undelivered WHERE {condition}");
        fixture.client().query_one(&sql, &[]).unwrap().get(0)
    };
    wait_until("both are dead", SOON, || count(&fixture, "status = 'dead'") == 2);
    wait_confirmed(&fixture);
    assert!(fixture.run(&["dead", "discard", "--topic", &bad, "--yes"]).status.success());
    let sql = "DELETE FROM public.outbox WHERE ordering_key = 'gone'";
    assert_eq!(fixture.client().execute(sql, &[]).unwrap(), 1);
    wait_until("both are older than the retention", SOON, || {
        count(&fixture, "updated_at < now() - interval '1 second'") == 2
    });
    // The side table is cleaned at startup.
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.start_relay().wait_ready(SOON);
    wait_until("the event of the deleted row is deleted", SOON, || {
        count(&fixture, "ordering_key = 'gone'") == 0
    });
    assert_eq!(count(&fixture, "ordering_key = 'kept'"), 1);
}
