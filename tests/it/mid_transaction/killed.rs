//! SIGKILL inside a transaction, several times.

use super::writer::Kind;
use super::{IN_FLIGHT, REPEATED_BY_KILL_MAX, SOON, prepare};
use crate::harness::metrics::state;
use testkit::wait::wait_until;

const KILLS: usize = 4;
/// How much may be published after the stored position: everything in flight, and 1,000 more.
const SPAN_MAX: usize = IN_FLIGHT + 1_000;

#[track_caller]
fn check(name: &'static str, kind: Kind) {
    let mut rig = prepare(name, kind, 60_000);
    for kill in 0..KILLS {
        // Each run gets further: work done before the last kill is not lost.
        rig.publish_some(2_000 + 1_000 * kill);
        rig.fixture.relay().kill9();
        rig.assert_inside();
    }
    rig.start_fast();
    rig.judge(KILLS * REPEATED_BY_KILL_MAX);
}

#[test]
fn the_relay_is_killed_in_copied_rows() {
    check("inside_killed_copy", Kind::Copy);
}

#[test]
fn the_relay_is_killed_in_savepoints() {
    check("inside_killed_rows", Kind::Savepoints);
}

#[test]
fn the_relay_is_killed_in_rows_messages_and_packs() {
    check("inside_killed_mixed", Kind::Mixed);
}

/// The position can't be stored: the relay stops reading before too many events would be repeated.
#[test]
fn the_relay_stops_reading_while_nothing_can_be_stored() {
    let mut rig = prepare("inside_unstored", Kind::Inserts, 60_000);
    rig.publish_some(1_000);
    let mut client = rig.fixture.client();
    let mut transaction = client.transaction().unwrap();
    let sql = "SELECT FROM postrider.progress WHERE slot = $1 FOR UPDATE";
    transaction.execute(sql, &[&rig.fixture.slot()]).unwrap();
    wait_until("the relay to report why it does not continue", SOON, || {
        state(rig.fixture.relay()) == "blocked-on-postgres"
    });
    let (code, reason) = rig.fixture.relay().http_get("/readyz").unwrap();
    assert_eq!(code, 503, "{reason}");
    rig.fixture.relay().kill9();
    transaction.rollback().unwrap();
    rig.assert_inside();
    rig.start_fast();
    rig.judge(SPAN_MAX);
}
