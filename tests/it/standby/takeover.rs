//! The first instance ends, and the second takes over: nothing is lost, everything stays in order.

use std::time::Instant;

use crate::harness::instances::{start_second, streams, wait_standby, wait_takeover};
use crate::harness::load::{LARGEST_TRANSACTION, Pace};
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, prepare};
use crate::standby::SOON;
use testkit::proxy::Proxy;
use testkit::shared;
use testkit::wait::wait_until;

#[test]
fn a_standby_takes_over_from_a_killed_instance() {
    let mut rig = prepare("killed").start(Pace::Hard);
    let mut second = start_second(&rig.fixture);
    let begun = Instant::now();
    rig.fixture.relay().kill9();
    wait_takeover("SIGKILL", begun, &[&second]);
    rig.load.wait_for_more(1_000);
    // And back again.
    rig.fixture.start_relay();
    wait_standby(rig.fixture.relay());
    second.kill9();
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(2 * REPEATED_BY_RESTART_MAX);
}

#[test]
fn a_standby_takes_over_from_a_stopped_instance() {
    let mut rig = prepare("stopped").start(Pace::Hard);
    let mut second = start_second(&rig.fixture);
    let begun = Instant::now();
    rig.fixture.relay().terminate();
    wait_takeover("SIGTERM", begun, &[&second]);
    assert_eq!(rig.fixture.relay().wait_exit(SOON).code(), Some(0));
    rig.load.wait_for_more(1_000);
    // A standby has nothing to finish.
    rig.fixture.start_relay();
    wait_standby(rig.fixture.relay());
    rig.fixture.relay().terminate();
    assert_eq!(rig.fixture.relay().wait_exit(SOON).code(), Some(0));
    rig.fixture.start_relay();
    wait_standby(rig.fixture.relay());
    second.terminate();
    assert_eq!(second.wait_exit(SOON).code(), Some(0));
    rig.fixture.relay().wait_ready(SOON);
    // The transaction that each stream was in may be repeated.
    rig.judge(2 * LARGEST_TRANSACTION);
}

/// The server does not notice: its walsender would hold the slot for the minute of
/// wal_sender_timeout.
#[test]
fn a_standby_takes_over_from_an_instance_without_network() {
    let proxy = Proxy::to(shared::postgres().port());
    let mut prepared = prepare("unplugged");
    let database = prepared.fixture.database().to_owned();
    let direct = prepared.fixture.postgres().url(&database);
    let url = prepared.fixture.postgres().url_via(proxy.port(), &database);
    prepared.fixture.set("POSTRIDER_DATABASE_URL", &url);
    let mut rig = prepared.start(Pace::Steady);
    rig.fixture.set("POSTRIDER_DATABASE_URL", &direct);
    let second = start_second(&rig.fixture);
    let walsender = rig.fixture.slot_holder().unwrap();
    let begun = Instant::now();
    proxy.unplug();
    wait_takeover("network loss", begun, &[&second]);
    let log = second.log();
    let ended = format!("terminated the orphaned walsender PID {walsender} ");
    assert!(log.lines().any(|line| line.contains(" WARN ") && line.contains(&ended)), "{log}");
    assert_ne!(rig.fixture.slot_holder(), Some(walsender));
    rig.load.wait_for_more(1_000);
    // It returns, and finds its sessions gone and its slot taken.
    proxy.cut();
    proxy.pass();
    wait_standby(rig.fixture.relay());
    assert!(streams(&second));
    rig.judge(REPEATED_BY_RESTART_MAX);
}

/// The relay is alive and has lost only the session that shows it: it stops on its own, and no
/// session has to be ended.
#[test]
fn a_standby_ends_no_live_instance_by_force() {
    let mut rig = prepare("alive").start(Pace::Hard);
    let second = start_second(&rig.fixture);
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = $1
          AND backend_type = 'client backend'";
    for name in ["postrider", "postrider progress"] {
        let before = rig.fixture.slot_holder();
        rig.fixture.client().query_one(sql, &[&name]).unwrap();
        wait_until("the slot to change hands", SOON, || {
            let holder = rig.fixture.slot_holder();
            holder.is_some() && holder != before
        });
        wait_until("one of them to stream", SOON, || {
            streams(&second) || streams(rig.fixture.relay())
        });
        rig.load.wait_for_more(500);
    }
    for log in [second.log(), rig.fixture.relay().log()] {
        assert!(!log.contains("terminated the orphaned walsender"), "{log}");
    }
    rig.judge(2 * REPEATED_BY_RESTART_MAX);
}
