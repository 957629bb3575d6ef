//! A copy made by `pg_dump`, on another server of another version, as for a move or a major
//! upgrade.

use std::process::Stdio;

use super::{BINARY, SOON, assert_nothing_missing, judge, recover, rows, stop, succeed, text};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::outbox::write;
use crate::harness::parked_events::{ParkedEvent, insert_all, states};
use crate::harness::rig::wait_caught_up;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::postgres::PostgresAddress;
use testkit::shared;
use testkit::wait::wait_until;

/// Runs a relay that has published a thousand events, and returns the topic.
#[track_caller]
fn run(fixture: &mut Fixture) -> String {
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(fixture, &topic, 1_000, 10);
    wait_caught_up(fixture);
    topic
}

/// `pg_dump | psql`. The fixture continues with the copy. Returns the address of the old server.
#[track_caller]
fn dump_and_restore(fixture: &mut Fixture) -> PostgresAddress {
    let (from, to) = (shared::postgres(), shared::postgres_17());
    let database = fixture.database();
    let sql = format!("CREATE DATABASE \"{database}\" TEMPLATE template0");
    to.client("postgres").batch_execute(&sql).unwrap();
    let mut dump =
        from.tool("pg_dump").arg(database).stdout(Stdio::piped()).spawn().expect("no pg_dump");
    let restored = to
        .tool("psql")
        .args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", database])
        .stdin(dump.stdout.take().unwrap())
        .output()
        .expect("no psql");
    assert!(restored.status.success(), "{}", text(&restored));
    assert!(dump.wait().unwrap().success(), "pg_dump failed");
    let old = fixture.postgres().clone();
    fixture.move_to(&to.address());
    old
}

#[test]
fn a_copy_is_refused_and_all_its_rows_are_published() {
    let mut fixture = Fixture::new(BINARY, "moved");
    // Transaction ids mean nothing on another server: here they are lower.
    let sql =
        "DO $$ BEGIN FOR n IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    fixture.client().batch_execute(sql).unwrap();
    let topic = run(&mut fixture);
    stop(&mut fixture);
    write(&fixture, &topic, 300, 10);
    // Dead events have positions in the old log that the new server's log will not reach for a long
    // time.
    let parked = fixture.create_topic("parked", 1, &[]);
    let at = |ordinal, commit_lsn| ParkedEvent {
        commit_lsn,
        ..ParkedEvent::keyed(&parked, ordinal, "k")
    };
    insert_all(&fixture, &[at(2, "F0/100"), at(1, "F0/200")]);
    let old = dump_and_restore(&mut fixture);
    assert_eq!(rows(&fixture), 1_300);
    assert_halts_at_start(&mut fixture, "is gone", "postrider recover");
    let dry_run = succeed(&fixture, &["recover", "--dry-run"]);
    assert!(dry_run.contains("this database is a copy"), "{dry_run}");
    assert!(dry_run.contains("1300  rows of public.outbox may be missing"), "{dry_run}");
    recover(&fixture);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 100, 10);
    let verdict = judge(&mut fixture, "moved");
    succeed(&fixture, &["replay", "--all"]);
    assert_eq!(states(&fixture), ["1 delivered 1", "2 delivered 1"]);
    let records = Consumer::new(fixture.broker(), &[&parked]).read_n(2, SOON);
    assert_eq!([records[0].id(), records[1].id()], ["2", "1"], "in the order of the old log");
    assert_nothing_missing(&verdict);
    assert_eq!(verdict.duplicates.count, 1_000, "{verdict}");
    old.drop_database(fixture.database()).unwrap();
}

/// The steps of docs/operations.md.
#[test]
fn a_copy_of_a_drained_outbox_repeats_nothing() {
    let mut fixture = Fixture::new(BINARY, "drained");
    // The writers have stopped, and everything is confirmed.
    let topic = run(&mut fixture);
    stop(&mut fixture);
    fixture.forget_slot();
    let old = dump_and_restore(&mut fixture);
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 100, 10);
    judge(&mut fixture, "drained and moved").assert_exact();
    old.drop_database(fixture.database()).unwrap();
}

/// Giving up possibly missing rows must not give up parked events: only the positions show that the
/// database is a copy.
#[test]
fn parked_events_of_a_copy_keep_their_place_even_without_a_recovery() {
    let mut fixture = Fixture::new(BINARY, "moved_parked");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    let topic = fixture.create_topic("parked", 1, &[]);
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload, headers)
        VALUES ($1, 'k', '{}', $2::text::json) RETURNING id::text";
    let put = |fixture: &Fixture, headers: &str| -> String {
        fixture.client().query_one(sql, &[&topic, &headers]).unwrap().get(0)
    };
    wait_until("the log to be far ahead of the new server's", SOON, || {
        let sql =
            "CREATE TABLE IF NOT EXISTS filler (text text); TRUNCATE filler; INSERT INTO filler
            SELECT repeat(md5(g::text), 100) FROM generate_series(1, 5000) g";
        fixture.client().batch_execute(sql).unwrap();
        let sql = "SELECT pg_current_wal_insert_lsn() > '0/8000000'";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    fixture.start_relay().wait_ready(SOON);
    put(&fixture, "[]");
    let second = put(&fixture, "{}");
    wait_until("both to be parked", SOON, || states(&fixture).len() == 2);
    wait_caught_up(&mut fixture);
    stop(&mut fixture);
    fixture.forget_slot();
    let old = dump_and_restore(&mut fixture);
    let sql =
        "SELECT bool_and(commit_lsn > pg_current_wal_insert_lsn()) FROM postrider.undelivered";
    let beyond: bool = fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert!(beyond, "the new server's log is longer: this proves nothing");
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let third = put(&fixture, "{}");
    wait_until("it to be parked too", SOON, || states(&fixture).len() == 3);
    succeed(&fixture, &["dead", "discard", "--all", "--yes"]);
    let records = Consumer::new(fixture.broker(), &[&topic]).read_n(2, SOON);
    assert_eq!([records[0].id(), records[1].id()], [&second, &third], "overtaken");
    old.drop_database(fixture.database()).unwrap();
}
