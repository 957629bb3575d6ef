//! Promotes a standby that has a copy of the slot: failover slots, since Postgres 17.

use rustix::process::{Pid, Signal, kill_process};

use super::promoted::both;
use super::writers::Writers;
use super::{BINARY, SOON, assert_nothing_missing, judge, promote};
use crate::harness::rig::print_line;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

const ROUNDS: usize = 4;
/// The standby's own slot on the primary.
const STANDBY: &str = "standby";
/// Unread slots: when the standby drops its copy of one, it has synchronized with the primary's
/// slots again.
const MARKERS: [&str; 2] = ["marker_1", "marker_2"];

/// A standby as described in docs/operations.md, and a primary that waits for it.
#[track_caller]
fn with_synced_standby(primary: &PostgresServer, port: u16, slot: &str) -> PostgresServer {
    let mut admin = primary.client("postgres");
    let sql = "SELECT pg_create_physical_replication_slot($1, true)";
    admin.execute(sql, &[&STANDBY]).unwrap();
    for marker in MARKERS {
        let sql = "SELECT pg_create_logical_replication_slot($1, 'pgoutput', failover => true)";
        admin.execute(sql, &[&marker]).unwrap();
    }
    let standby = primary
        .copy(port)
        .following(primary)
        .setting("primary_slot_name", STANDBY)
        .setting("hot_standby_feedback", "on")
        .setting("sync_replication_slots", "on")
        .start();
    let sql = format!("ALTER SYSTEM SET synchronized_standby_slots = '{STANDBY}'");
    admin.batch_execute(&sql).unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").unwrap();
    wait_until("the standby to have a copy of the slot", SOON, || {
        // The copy begins at the next of these records; the primary writes one only every 15 s.
        admin.batch_execute("SELECT pg_log_standby_snapshot()").unwrap();
        let sql = "SELECT synced AND NOT temporary AND invalidation_reason IS NULL
            FROM pg_replication_slots WHERE slot_name = $1";
        let row = standby.client("postgres").query_opt(sql, &[&slot]).unwrap();
        let has_markers = MARKERS.iter().all(|marker| has_slot(&standby, marker));
        has_markers && row.is_some_and(|row| row.get(0))
    });
    standby
}

fn has_slot(server: &PostgresServer, slot: &str) -> bool {
    let sql = "SELECT FROM pg_replication_slots WHERE slot_name = $1";
    server.client("postgres").query_opt(sql, &[&slot]).unwrap().is_some()
}

/// The stored position according to this server.
fn stored(server: &PostgresServer, fixture: &Fixture) -> u64 {
    let sql = "SELECT (position - '0/0')::bigint FROM postrider.progress WHERE slot = $1";
    let row = server.client(fixture.database()).query_one(sql, &[&fixture.slot()]).unwrap();
    u64::try_from(row.get::<_, i64>(0)).unwrap()
}

/// Stops the WAL receiver of the standby, until the primary has stored a position that the standby
/// will never receive, and the standby has copied the slot again. Returns the stopped process.
#[track_caller]
fn hold_back(primary: &PostgresServer, standby: &PostgresServer, fixture: &Fixture) -> Pid {
    let sql = "SELECT pid FROM pg_stat_wal_receiver";
    let receiver = standby.client("postgres").query_one(sql, &[]).unwrap().get(0);
    let receiver = Pid::from_raw(receiver).unwrap();
    kill_process(receiver, Signal::STOP).unwrap();
    wait_until("a position that the standby lacks", SOON, || {
        stored(primary, fixture) > stored(standby, fixture)
    });
    // Our slot's copy is renewed after the first marker, and so before the second.
    for marker in MARKERS {
        primary.address().drop_slot(marker).unwrap();
        wait_until("the standby to look at the slots", SOON, || !has_slot(standby, marker));
    }
    receiver
}

/// The slot's position and the stored one.
fn positions(fixture: &Fixture) -> (String, String) {
    let sql = "SELECT confirmed_flush_lsn::text, position::text
        FROM pg_replication_slots JOIN postrider.progress ON slot = slot_name WHERE slot = $1";
    let row = fixture.client().query_one(sql, &[&fixture.slot()]).unwrap();
    (row.get(0), row.get(1))
}

/// Every other time the standby has fallen behind: the slot must not have confirmed what the
/// standby has not stored.
///
/// The relay is never restarted, and nobody recovers anything. The primary sends the relay only
/// what the standby has, so Kafka has nothing that the promoted server lacks.
#[test]
fn the_relay_continues_automatically_after_every_promotion() {
    let options = PostgresOptions { major_version: Some(17), ..PostgresOptions::default() };
    let mut primary = PostgresServer::start(options);
    let mut other_port = free_port();
    let mut fixture = Fixture::on(BINARY, "synced", &primary.address(), &shared::broker());
    let topic = fixture.create_topic("events", 3, &[]);
    let url = both(&fixture, primary.port(), other_port);
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay().wait_ready(SOON);
    let writers = Writers::start(&fixture, &topic);
    for round in 1..=ROUNDS {
        let standby = with_synced_standby(&primary, other_port, fixture.slot());
        writers.wait_for_more(1_000);
        let held_back = (round % 2 == 0).then(|| hold_back(&primary, &standby, &fixture));
        primary.kill9();
        if let Some(receiver) = held_back {
            // It must not read what the primary has already sent.
            kill_process(receiver, Signal::TERM).unwrap();
            kill_process(receiver, Signal::CONT).unwrap();
        }
        promote(&standby);
        for marker in MARKERS {
            standby.address().drop_slot(marker).unwrap();
        }
        fixture.move_to(&standby.address());
        let (slot, stored) = positions(&fixture);
        print_line(&format!("promotion {round}: the slot stands at {slot}, stored is {stored}"));
        // It becomes the standby of the former standby; this primary does not wait for a standby
        // yet.
        let mut admin = standby.client("postgres");
        admin.batch_execute("ALTER SYSTEM RESET synchronized_standby_slots").unwrap();
        writers.move_to(&standby.address());
        other_port = primary.port();
        primary = standby;
        writers.wait_for_more(500);
        assert!(fixture.relay().is_running(), "{}", fixture.relay().log_tail(20));
    }
    let committed = writers.finish();
    let verdict = judge(&mut fixture, "promoted, with a synced slot");
    assert!(fixture.relay().is_running(), "{}", fixture.relay().log_tail(20));
    let gone = committed.saturating_sub(verdict.expected);
    print_line(&format!("promoted, with a synced slot: {gone} rows that were committed are gone"));
    assert_nothing_missing(&verdict);
    assert_eq!(verdict.unexpected.count, 0, "{verdict}");
}
