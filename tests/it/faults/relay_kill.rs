//! SIGKILL for the relay, and SIGSTOP, which looks like its end to everybody else.

use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, SOON, prepare};
use testkit::wait::wait_until;

const KILLS: usize = 20;

#[test]
fn the_relay_is_killed_at_random_moments_real_kafka() {
    let mut rig = prepare("killed").start(Pace::Hard);
    let mut ends = Vec::new();
    for _ in 0..KILLS {
        // From "has not even connected" to "streams for a while".
        rig.load.wait_for_more(rand::random_range(50..5_000));
        ends.push(rig.kill_relay());
        rig.fixture.start_relay();
    }
    rig.fixture.relay().wait_ready(SOON);
    rig.judge_after(&ends);
}

#[test]
fn the_relay_is_frozen_until_the_server_gives_up() {
    let mut prepared = prepare("frozen");
    prepared.shorten_server_timeout();
    let mut rig = prepared.start(Pace::Steady);
    rig.fixture.relay().pause();
    wait_until("the server to give up on the relay", SOON, || rig.fixture.slot_holder().is_none());
    rig.load.wait_for_more(1_000);
    rig.fixture.relay().resume();
    rig.judge(REPEATED_BY_RESTART_MAX);
}
