//! Sessions of the relay that an administrator, or the server, ends.

use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON, prepare};
use testkit::wait::wait_until;

const ROUNDS: usize = 3;

/// Ends sessions of the relay and waits until it streams again.
#[track_caller]
fn terminate(rig: &mut Rig, which: &str) {
    let mut client = rig.fixture.client();
    let sql = format!(
        "select pid, pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name <> 'harness' and {which}"
    );
    let walsender = rig.fixture.slot_holder();
    let ended = client.query(&sql, &[]).unwrap();
    assert!(!ended.is_empty(), "there was no session to end");
    wait_until("the relay to take the slot again", SOON, || {
        let holder = rig.fixture.slot_holder();
        holder.is_some() && holder != walsender
    });
    rig.load.wait_for_more(1_000);
}

#[test]
fn the_walsender_is_terminated() {
    let mut rig = prepare("walsender").start(Pace::Hard);
    for _ in 0..ROUNDS {
        terminate(&mut rig, "backend_type = 'walsender'");
    }
    rig.judge(ROUNDS * REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_ordinary_session_is_terminated() {
    let mut rig = prepare("ordinary").start(Pace::Hard);
    // The writers are clients of the harness: only the relay's own session is another.
    for _ in 0..ROUNDS {
        terminate(&mut rig, "backend_type = 'client backend'");
    }
    rig.judge(ROUNDS * REPEATED_BY_RESTART_MAX);
}
