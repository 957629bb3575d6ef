//! A relay that is frozen inside a transaction and wakes up after another one has continued it.

use std::time::Instant;

use super::writer::Kind;
use super::{Rig, SOON, prepare};
use crate::harness::instances::{start_second, wait_standby, wait_takeover};
use crate::harness::rig::{read, wait_caught_up};
use testkit::wait::wait_until;

/// Whether the stored position inside the transaction is at least this far, or after it.
#[track_caller]
fn is_at_least(rig: &Rig, place: &Option<String>) -> bool {
    let sql =
        "SELECT inside_change_lsn IS NULL OR inside_change_lsn >= coalesce($2::text, '0/0')::pg_lsn
        FROM postrider.progress WHERE slot = $1";
    rig.fixture.client().query_one(sql, &[&rig.fixture.slot(), place]).unwrap().get(0)
}

#[track_caller]
fn place(rig: &Rig) -> Option<String> {
    let sql = "SELECT inside_change_lsn::text FROM postrider.progress WHERE slot = $1";
    rig.fixture.client().query_one(sql, &[&rig.fixture.slot()]).unwrap().get(0)
}

#[test]
fn a_position_stored_late_takes_nothing_back() {
    let mut rig = prepare("inside_frozen", Kind::Inserts, 60_000);
    let database = rig.fixture.database();
    let sql = format!("ALTER DATABASE \"{database}\" SET wal_sender_timeout = '3s'");
    rig.fixture.client().batch_execute(&sql).unwrap();
    rig.publish_some(2_000);
    let second = start_second(&rig.fixture);
    let begun = Instant::now();
    rig.fixture.relay().pause();
    let frozen = place(&rig);
    assert!(frozen.is_some(), "the relay was not inside the transaction");
    wait_takeover("SIGSTOP inside a transaction", begun, &[&second]);
    wait_until("the second to continue", SOON, || {
        is_at_least(&rig, &frozen) && place(&rig) != frozen
    });
    let before = place(&rig);
    rig.fixture.relay().resume();
    wait_standby(rig.fixture.relay());
    assert!(is_at_least(&rig, &before), "{before:?} became {:?}", place(&rig));
    rig.fixture.give_relay(second);
    wait_caught_up(&mut rig.fixture);
    // The events held by the first instance are published late, and repeated.
    read(rig.fixture.broker(), &rig.topic, rig.written.expected).assert_at_least_once(None);
}

/// The same without timing: whenever the relay stores its position, a later one stored by another
/// is kept.
#[test]
fn a_position_further_on_stays_stored() {
    let mut rig = prepare("inside_further", Kind::Inserts, 60_000);
    rig.publish_some(2_000);
    let slot = rig.fixture.slot().to_owned();
    let mut client = rig.fixture.client();
    let sql = "UPDATE postrider.progress SET inside_change_lsn = $2::text::pg_lsn
        WHERE slot = $1 AND inside_commit_lsn IS NOT NULL RETURNING clock_timestamp()::text";
    let stored_at: String =
        client.query_one(sql, &[&slot, &rig.written.before_commit]).unwrap().get(0);
    wait_until("the relay to have stored since", SOON, || {
        let sql =
            "SELECT updated_at > $2::text::timestamptz FROM postrider.progress WHERE slot = $1";
        client.query_one(sql, &[&slot, &stored_at]).unwrap().get(0)
    });
    rig.fixture.relay().kill9();
    rig.assert_inside();
    assert_eq!(place(&rig), Some(rig.written.before_commit.clone()));
}
