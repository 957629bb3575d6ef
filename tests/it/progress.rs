//! Stored progress: the slot never confirms what is not stored, and a slot ahead of the stored
//! position was moved by somebody else.

use std::time::Duration;

use crate::harness::halt::{assert_halts_at_start, last_two_lines};
use crate::harness::slot::confirmed_lsn;
use crate::harness::slot::wait_confirmed;
use crate::migrate::print::psql;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const FAILOVER_SLOTS_SINCE: u32 = 17;
const QUIET: Duration = Duration::from_secs(2);

#[track_caller]
fn write(fixture: &Fixture, topic: &str, events: i64) -> Vec<String> {
    let sql = "INSERT INTO public.outbox (topic, payload)
        SELECT $1, '{}' FROM generate_series(1, $2::bigint) RETURNING id::text";
    let rows = fixture.client().query(sql, &[&topic, &events]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// One value of the fixture's row.
#[track_caller]
fn stored(fixture: &Fixture, column: &str) -> Option<String> {
    let sql = format!("SELECT {column}::text FROM postrider.progress WHERE slot = $1");
    let row = fixture.client().query_opt(&sql, &[&fixture.slot()]).unwrap();
    row.and_then(|row| row.get(0))
}

/// Runs a relay that publishes something, and stops it.
#[track_caller]
fn stopped(name: &str) -> (Fixture, String) {
    let mut fixture = Fixture::new(BINARY, name);
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 3);
    fixture.consumer().read_n(3, SOON);
    wait_confirmed(&fixture);
    stop(&mut fixture);
    (fixture, topic)
}

#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    assert!(status.success(), "{}", fixture.relay().log());
}

#[track_caller]
fn execute(fixture: &Fixture, sql: &str) {
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
}

#[test]
fn the_slot_never_confirms_what_is_not_stored() {
    let mut fixture = Fixture::new(BINARY, "stored_first");
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut client = fixture.client();
    for _ in 0..20 {
        write(&fixture, &topic, 500);
        for _ in 0..20 {
            // In a new snapshot, so that the stored position is as recent as the slot's.
            let before: String = confirmed_lsn(&fixture).unwrap();
            let sql = "SELECT $2::text::pg_lsn <= position FROM postrider.progress WHERE slot = $1";
            let first: bool = client.query_one(sql, &[&fixture.slot(), &before]).unwrap().get(0);
            assert!(first, "the slot confirmed {before} before it was stored");
        }
    }
    fixture.consumer().read_n(10_000, SOON);
    wait_confirmed(&fixture);
    stop(&mut fixture);
    // A slot that standbys copy confirms only what the stream has reached after it was stored.
    if shared::postgres().address().major_version() < FAILOVER_SLOTS_SINCE {
        assert_eq!(stored(&fixture, "position"), confirmed_lsn(&fixture), "all of it is confirmed");
    }
    assert!(stored(&fixture, "system_identifier").is_some());
    assert_eq!(stored(&fixture, "timeline").as_deref(), Some("1"));
}

#[test]
fn a_slot_moved_by_somebody_else_is_refused() {
    let (mut fixture, topic) = stopped("moved");
    let lost = write(&fixture, &topic, 2);
    execute(&fixture, "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())");
    let log = assert_halts_at_start(&mut fixture, "somebody has moved the slot", "DELETE FROM");
    let generation = stored(&fixture, "generation");
    // The fix works as printed.
    let [_, fix] = last_two_lines(&log);
    let sql = fix.split("run ").last().unwrap().split(", then").next().unwrap();
    execute(&fixture, "SELECT pg_drop_replication_slot($1)");
    fixture.client().batch_execute(sql).unwrap();
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    assert_ne!(stored(&fixture, "generation"), generation);
    let next = write(&fixture, &topic, 1);
    let records = fixture.consumer().read_n(4, SOON);
    let ids: Vec<&str> = records.iter().map(Received::id).collect();
    assert!(ids.contains(&next[0].as_str()) && !ids.contains(&lost[0].as_str()), "{ids:?}");
}

#[test]
fn a_recreated_slot_is_refused_and_migrate_does_not_recreate_it() {
    let (mut fixture, topic) = stopped("recreated_slot");
    execute(&fixture, "SELECT pg_drop_replication_slot($1)");
    write(&fixture, &topic, 2);
    let output = fixture.run(&["migrate"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("was dropped") && errors.contains("fix: "), "{errors}");
    assert!(confirmed_lsn(&fixture).is_none(), "there is a slot");
    let script = fixture.run(&["migrate", "--print"]);
    let output = psql(&fixture, &String::from_utf8_lossy(&script.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("was dropped"), "{errors}");
    execute(&fixture, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')");
    assert_halts_at_start(
        &mut fixture,
        "dropped and recreated it",
        "DELETE FROM postrider.progress",
    );
    let rows: i64 =
        fixture.client().query_one("SELECT count(*) FROM public.outbox", &[]).unwrap().get(0);
    assert_eq!(rows, 5, "nothing was deleted");
}

#[test]
fn a_slot_without_stored_progress_is_used_as_it_is() {
    let (mut fixture, topic) = stopped("adopted");
    execute(&fixture, "DELETE FROM postrider.progress WHERE slot = $1");
    let waiting = write(&fixture, &topic, 2);
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(5, SOON);
    assert!(waiting.iter().all(|id| records.iter().any(|record| record.id() == id)));
    let covered =
        "SELECT count(*) FROM postrider.coverage WHERE outbox = 'public.outbox'::regclass";
    assert_eq!(fixture.client().query_one(covered, &[]).unwrap().get::<_, i64>(0), 1);
}

#[test]
fn progress_of_another_server_is_refused() {
    let (mut fixture, _) = stopped("copied");
    execute(&fixture, "UPDATE postrider.progress SET system_identifier = '42' WHERE slot = $1");
    assert_halts_at_start(&mut fixture, "this database is a copy", "DELETE FROM");
}

#[test]
fn a_position_beyond_the_end_of_the_log_is_never_confirmed() {
    let (mut fixture, topic) = stopped("beyond");
    execute(&fixture, "UPDATE postrider.progress SET position = 'FFFF/0' WHERE slot = $1");
    let next = write(&fixture, &topic, 2);
    assert_halts_at_start(&mut fixture, "beyond the end of the server's log", "postrider recover");
    let output = fixture.run(&["recover"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.start_relay().wait_ready(SOON);
    let later = write(&fixture, &topic, 1);
    fixture.consumer().read_until(SOON, |records| {
        next.iter().chain(&later).all(|id| records.iter().any(|record| record.id() == id))
    });
    stop(&mut fixture);
    fixture.start_relay().wait_ready(SOON);
}

/// Servers before 17 write a slot's position to disk only at checkpoints, and forget it even after
/// a clean stop.
#[test]
fn stored_events_are_not_repeated_when_the_server_forgets_its_position() {
    let mut postgres = PostgresServer::start(PostgresOptions::default());
    let mut fixture = Fixture::on(BINARY, "forgetful", &postgres.address(), &shared::broker());
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 1_000);
    fixture.consumer().read_n(1_000, SOON);
    wait_confirmed(&fixture);
    fixture.relay().kill9();
    postgres.stop(StopMode::Immediate, SOON);
    postgres.start_again();
    write(&fixture, &topic, 1);
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    consumer.read_n(1_001, SOON);
    assert!(consumer.drain_quiet(QUIET).is_empty(), "events were repeated");
}
