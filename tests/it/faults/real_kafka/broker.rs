//! The broker is stopped, killed, frozen.

use std::time::Duration;

use super::take_broker;
use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON};
use testkit::shared;
use testkit::wait::wait_until;

/// Waits until the relay reports that it waits for the broker, and checks that it runs.
#[track_caller]
fn wait_blocked(rig: &mut Rig) {
    let relay = rig.fixture.relay();
    wait_until("/readyz to report the broker as unreachable", SOON, || {
        let answer = relay.http_get("/readyz");
        answer.is_ok_and(|(status, body)| status == 503 && body.contains("blocked-on-broker"))
    });
    assert!(relay.is_running());
}

#[test]
fn the_broker_is_stopped_for_a_while() {
    let mut broker = take_broker();
    let mut rig = broker.prepare("kafka_stop", &shared::postgres().address()).start(Pace::Steady);
    let pid = rig.fixture.relay().pid();
    broker.kafka().stop();
    rig.endure(Duration::from_secs(20));
    wait_blocked(&mut rig);
    broker.kafka().start_again();
    rig.load.wait_for_more(1_000);
    rig.fixture.relay().wait_ready(SOON);
    assert!(rig.fixture.relay().is_running());
    assert_eq!(rig.fixture.relay().pid(), pid, "the relay was restarted");
    // A producer that never saw a failure repeats nothing that was acknowledged.
    rig.judge(REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_broker_is_killed_and_restarted() {
    const KILLS: usize = 2;
    let mut broker = take_broker();
    let mut rig = broker.prepare("kafka_kill", &shared::postgres().address()).start(Pace::Hard);
    for _ in 0..KILLS {
        rig.load.wait_for_more(2_000);
        broker.kafka().kill9();
        broker.kafka().start_again();
        rig.fixture.relay().wait_ready(SOON);
    }
    rig.load.wait_for_more(1_000);
    rig.judge(KILLS * REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_broker_is_frozen_for_a_while() {
    let mut broker = take_broker();
    let mut rig = broker.prepare("kafka_freeze", &shared::postgres().address()).start(Pace::Steady);
    broker.kafka().pause();
    rig.endure(Duration::from_secs(15));
    wait_blocked(&mut rig);
    broker.kafka().resume();
    rig.load.wait_for_more(1_000);
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(REPEATED_BY_RESTART_MAX);
}
