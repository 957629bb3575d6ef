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
fn of_copied_rows() {
    check("inside_copy", Kind::Copy);
}

#[test]
fn of_inserted_rows() {
    check("inside_inserts", Kind::Inserts);
}

#[test]
fn of_savepoints() {
    check("inside_savepoints", Kind::Savepoints);
}

#[test]
fn of_rows_messages_and_packs() {
    check("inside_mixed", Kind::Mixed);
}
