//! A slot that another client holds is waited for.

use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, SOON, prepare};
use crate::harness::slot_holder::SlotHolder;
use testkit::relay::Relay;
use testkit::wait::wait_until;

/// Whether the relay reports that it waits for the slot.
fn waits_for_the_slot(relay: &Relay) -> bool {
    let answer = relay.http_get("/readyz");
    answer.is_ok_and(|(status, body)| status == 200 && body.contains("is held by PID"))
}

#[test]
fn the_relay_waits_and_takes_over() {
    let mut rig = prepare("busy").start_load(Pace::Steady);
    let slot_holder = SlotHolder::take(&rig.fixture);
    let relay = rig.fixture.start_relay();
    // It waits for as long as the slot is held.
    for _ in 0..3 {
        wait_until("/readyz to give the reason", SOON, || waits_for_the_slot(relay));
        rig.load.wait_for_more(1_000);
    }
    assert_eq!(relay.http_get("/livez").unwrap().0, 200);
    assert!(relay.is_running());
    let log = relay.log();
    let lines = log.lines().filter(|line| line.contains("is held by PID"));
    assert_eq!(lines.count(), 1, "expected exactly one line:\n{log}");

    drop(slot_holder);
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(0);
}

#[test]
fn a_relay_that_lost_its_slot_reports_who_holds_it() {
    let mut rig = prepare("stolen").start(Pace::Steady);
    rig.wait_caught_up();
    let relay = rig.fixture.relay();
    relay.pause();
    let mut client = rig.fixture.client();
    let end = "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots
        where slot_name = $1";
    client.query(end, &[&rig.fixture.slot()]).unwrap();
    let slot_holder = SlotHolder::take(&rig.fixture);
    rig.fixture.relay().resume();
    let relay = rig.fixture.relay();
    wait_until("the relay to report that its slot is taken", SOON, || waits_for_the_slot(relay));
    // It streamed before: the loss of its session is one line, the busy slot another.
    let log = relay.log();
    assert!(log.contains("is held by PID"), "nothing is logged about it:\n{log}");
    drop(slot_holder);
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(REPEATED_BY_RESTART_MAX);
}
