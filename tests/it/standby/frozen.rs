//! An instance that is frozen and wakes up after another has taken over.

use std::time::Instant;

use crate::harness::instances::{start_second, streams, wait_standby, wait_takeover};
use crate::harness::load::Pace;
use crate::harness::rig::{Prepared, REPEATED_BY_RESTART_MAX, prepare};
use testkit::wait::wait_until;

/// The server soon gives up on a relay that does not answer.
pub fn with_server_timeout(name: &str, timeout: &str) -> Prepared {
    let prepared = prepare(name);
    let database = prepared.fixture.database();
    let sql = format!("ALTER DATABASE \"{database}\" SET wal_sender_timeout = '{timeout}'");
    prepared.fixture.client().batch_execute(&sql).unwrap();
    prepared
}

/// The sockets of a frozen process stay open: only wal_sender_timeout ends its walsender. When it
/// wakes up, it publishes the events it held, late and repeated. By first occurrences the order is
/// still correct: everything before these events is in Kafka.
#[test]
fn nothing_is_lost_and_the_frozen_instance_stands_by() {
    let mut rig = with_server_timeout("frozen_owner", "3s").start(Pace::Hard);
    let second = start_second(&rig.fixture);
    let begun = Instant::now();
    rig.fixture.relay().pause();
    let before = rig.load.committed();
    wait_takeover("SIGSTOP, wal_sender_timeout 3 s", begun, &[&second]);
    assert!(!second.log().contains("terminated the orphaned walsender"), "{}", second.log());
    let late = rig.load.committed() - before;
    rig.load.wait_for_more(2_000);
    let position = |rig: &crate::harness::rig::Rig| -> String {
        let sql = "SELECT position::text FROM postrider.progress WHERE slot = $1";
        rig.fixture.client().query_one(sql, &[&rig.fixture.slot()]).unwrap().get(0)
    };
    let stored = position(&rig);
    rig.fixture.relay().resume();
    wait_standby(rig.fixture.relay());
    assert!(streams(&second), "{}", second.log());
    let sql = "SELECT position >= $2::text::pg_lsn FROM postrider.progress WHERE slot = $1";
    let row = rig.fixture.client().query_one(sql, &[&rig.fixture.slot(), &stored]).unwrap();
    assert!(row.get::<_, bool>(0), "the progress went back from {stored} to {}", position(&rig));
    // The events it held, and those that the server had sent it before giving up.
    rig.judge(2 * REPEATED_BY_RESTART_MAX + late);
}

/// The lock is not a mutex: a frozen relay whose walsender was ended holds it, and another relay
/// streams nevertheless.
#[test]
fn the_lock_of_a_frozen_instance_keeps_no_other_from_the_slot() {
    let mut rig = prepare("frozen_lock").start(Pace::Steady);
    let second = start_second(&rig.fixture);
    rig.fixture.relay().pause();
    let sql = "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots
        WHERE slot_name = $1";
    rig.fixture.client().query_one(sql, &[&rig.fixture.slot()]).unwrap();
    wait_until("the second to stream", super::SOON, || streams(&second));
    rig.load.wait_for_more(500);
    let sql = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND locktype = 'advisory' AND mode = 'ShareLock'
          AND granted";
    let shared: i64 = rig.fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(shared, 2);
    rig.fixture.relay().resume();
    wait_standby(rig.fixture.relay());
    rig.judge(2 * REPEATED_BY_RESTART_MAX);
}
