//! A clean stop inside a transaction.

use super::writer::Kind;
use super::{REPEATED_BY_STOP_MAX, prepare};

const STOPS: usize = 3;

#[track_caller]
fn check(name: &'static str, kind: Kind) {
    let mut rig = prepare(name, kind, 60_000);
    for _ in 0..STOPS {
        rig.publish_some(3_000);
        rig.stop();
        rig.assert_inside();
    }
    rig.start_fast();
    rig.judge(REPEATED_BY_STOP_MAX);
}

#[test]
fn the_relay_is_stopped_in_copied_rows() {
    check("inside_copy", Kind::Copy);
}

#[test]
fn the_relay_is_stopped_in_inserted_rows() {
    check("inside_inserts", Kind::Inserts);
}

#[test]
fn the_relay_is_stopped_in_savepoints() {
    check("inside_savepoints", Kind::Savepoints);
}

#[test]
fn the_relay_is_stopped_in_rows_messages_and_packs() {
    check("inside_mixed", Kind::Mixed);
}
