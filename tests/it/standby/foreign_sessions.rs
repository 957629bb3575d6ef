//! Any session can take the lock by which relays show that they are alive. That must not end a
//! relay.

use std::time::Instant;

use postgres::Client;

use crate::harness::instances::{start_second, wait_takeover};
use crate::standby::{BINARY, SOON};
use testkit::fixture::Fixture;
use testkit::relay::Relay;
use testkit::wait::wait_until;

/// The first number of the lock; the second is the hash of the slot's name.
const LOCK_CLASS: i32 = 0x7072_736c;
/// Longer than a walsender may be without the lock.
const WATCHED_SECONDS: f64 = 5.0;

fn lock(slot: &str, foreign: &mut Client) {
    let sql = "SELECT pg_advisory_lock($1, hashtext($2))";
    foreign.execute(sql, &[&LOCK_CLASS, &slot]).unwrap();
}

/// Whether only relays hold the lock.
fn relays_hold_the_lock(fixture: &Fixture) -> bool {
    let sql = "SELECT coalesce(bool_and(mode = 'ShareLock'), false) FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database
              WHERE datname = current_database())
          AND classid = $1::bigint::oid AND objid = ((hashtext($2)::bigint + 4294967296) % 4294967296)::oid";
    let class = i64::from(LOCK_CLASS);
    fixture.client().query_one(sql, &[&class, &fixture.slot()]).unwrap().get(0)
}

/// Waits until a standby has watched the slot for a while from now on.
#[track_caller]
fn wait_standby_checks(fixture: &Fixture) {
    let mut client = fixture.client();
    let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
    let until = client.query_one(now, &[]).unwrap().get::<_, f64>(0) + WATCHED_SECONDS;
    let looked_at = "SELECT coalesce(max(extract(epoch FROM query_start))::float8, 0)
        FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'postrider standby'";
    wait_until("the standby to check the slot", SOON, || {
        client.query_one(looked_at, &[]).unwrap().get::<_, f64>(0) > until
    });
}

/// The relay takes the lock, and the standby never treats it as gone.
#[track_caller]
fn assert_stays(fixture: &Fixture, walsender: i32, standby: &Relay) {
    wait_until("the relay to hold its lock", SOON, || relays_hold_the_lock(fixture));
    wait_standby_checks(fixture);
    assert_eq!(fixture.slot_holder(), Some(walsender), "{}", standby.log());
    assert!(!standby.log().contains("terminated the orphaned walsender"), "{}", standby.log());
}

#[test]
fn a_foreign_session_that_releases_the_lock_does_not_end_a_relay() {
    let mut fixture = Fixture::new(BINARY, "lock_let_go");
    let mut foreign = fixture.client();
    lock(fixture.slot(), &mut foreign);
    fixture.start_relay().wait_ready(SOON);
    let second = start_second(&fixture);
    let walsender = fixture.slot_holder().unwrap();
    assert!(fixture.relay().log().contains("another program holds the advisory lock"));
    drop(foreign);
    assert_stays(&fixture, walsender, &second);
}

/// A waiting session gets the lock as soon as the relay ends, before the next relay does.
#[test]
fn a_foreign_session_that_waits_for_the_lock_does_not_end_the_next_relay() {
    let mut fixture = Fixture::new(BINARY, "lock_waiting");
    fixture.start_relay().wait_ready(SOON);
    let second = start_second(&fixture);
    wait_until("the relay to hold its lock", SOON, || relays_hold_the_lock(&fixture));
    let (mut foreign, slot) = (fixture.client(), fixture.slot().to_owned());
    let waiting = std::thread::spawn(move || {
        lock(&slot, &mut foreign);
        foreign
    });
    let is_waiting = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let mut client = fixture.client();
    wait_until("the foreign session to wait", SOON, || {
        client.query_one(is_waiting, &[]).unwrap().get(0)
    });
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    let foreign = waiting.join().unwrap();
    wait_takeover("a foreign session has the lock", Instant::now(), &[&second]);
    let walsender = fixture.slot_holder().unwrap();
    let third = start_second(&fixture);
    drop(foreign);
    assert_stays(&fixture, walsender, &third);
}
