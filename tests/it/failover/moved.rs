//! A copy made by `pg_dump`, on another server that is also another version: moving house, and major
//! upgrades.

use std::process::Stdio;
use std::sync::OnceLock;

use super::{BINARY, SOON, assert_nothing_missing, judge, recover, rows, stop, succeed, text};
use crate::dead::rig::{Parked, insert_all, states};
use crate::faults::rig::wait_confirmed;
use crate::halt::assert_halts_at_start;
use crate::snapshot::write;
use crate::support::consumer::Consumer;
use crate::support::fixture::Fixture;
use crate::support::postgres::{PostgresAddress, PostgresOptions, PostgresServer};
use crate::support::shared;

/// The server to move to.
fn new_server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = PostgresOptions { major_version: Some(17), ..PostgresOptions::default() };
        PostgresServer::start(options)
    })
}

/// The relay has published a thousand events.
#[track_caller]
fn run(fixture: &mut Fixture) -> String {
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(fixture, &topic, 1_000, 10);
    wait_confirmed(fixture);
    topic
}

/// `pg_dump | psql`. The fixture goes on with the copy; the address of the old server is given back.
#[track_caller]
fn dump_and_restore(fixture: &mut Fixture) -> PostgresAddress {
    let (from, to) = (shared::postgres(), new_server());
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
    // Numbers of transactions mean nothing on another server: here they are lower.
    let sql =
        "DO $$ BEGIN FOR n IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    fixture.client().batch_execute(sql).unwrap();
    let topic = run(&mut fixture);
    stop(&mut fixture);
    write(&fixture, &topic, 300, 10);
    // Dead events belong to a place in a log that the new server's will not reach for long.
    let parked = fixture.create_topic("parked", 1, &[]);
    let at = |ordinal, commit_lsn| Parked { commit_lsn, ..Parked::keyed(&parked, ordinal, "k") };
    insert_all(&fixture, &[at(2, "F0/100"), at(1, "F0/200")]);
    let old = dump_and_restore(&mut fixture);
    assert_eq!(rows(&fixture), 1_300);
    assert_halts_at_start(&mut fixture, "is gone", "postrider recover");
    let looked = succeed(&fixture, &["recover", "--dry-run"]);
    assert!(looked.contains("this database is a copy"), "{looked}");
    assert!(looked.contains("1300  rows of public.outbox may be missing"), "{looked}");
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
    // The writers have stopped, and all is confirmed.
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
