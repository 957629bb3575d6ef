//! A stop while the last rows of a table have been read but not yet sent to the broker.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::outbox::{expected, read_all, without_slot, write};
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const ROWS: i64 = 40;

/// One event in flight, and a second for each: all rows are read long before the last is published.
pub(crate) fn slow_down(fixture: &mut Fixture) {
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", "1");
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "1000");
}

pub(super) fn speed_up(fixture: &mut Fixture) {
    fixture.unset("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS");
    fixture.unset("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS");
}

pub(super) fn has_job(fixture: &Fixture) -> bool {
    let sql = "SELECT count(*) = 1 FROM postrider.backfill WHERE slot = $1";
    fixture.client().query_one(sql, &[&fixture.slot()]).unwrap().get(0)
}

#[track_caller]
fn assert_all_published(fixture: &Fixture) {
    let expected = expected(fixture);
    let records = read_all(fixture, &expected);
    expected.verdict(&records).assert_at_least_once(None);
}

#[test]
fn a_snapshot_stopped_near_its_end_is_not_finished() {
    for stop in [Signal::TERM, Signal::INT] {
        let mut fixture = without_slot("snapshot_stop");
        let topic = fixture.create_topic("events", 1, &[]);
        write(&fixture, &topic, ROWS, ROWS);
        slow_down(&mut fixture);
        fixture.start_relay();
        fixture.consumer().read_n(1, SOON);
        match stop {
            Signal::TERM => fixture.relay().terminate(),
            _ => fixture.relay().interrupt(),
        }
        let status = fixture.relay().wait_exit(SOON);
        let log = fixture.relay().log();
        assert!(status.success(), "{log}");
        assert!(!log.contains("all rows are published"), "{log}");
        assert!(has_job(&fixture), "the missing rows are not recorded anywhere:\n{log}");
        speed_up(&mut fixture);
        fixture.start_relay().wait_ready(SOON);
        assert_all_published(&fixture);
    }
}

#[test]
fn a_recovery_stopped_near_its_end_is_not_finished() {
    let mut fixture = Fixture::new(BINARY, "recover_stop");
    let topic = fixture.create_topic("events", 1, &[]);
    let sql = "SELECT pg_drop_replication_slot($1)";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    write(&fixture, &topic, ROWS, ROWS);
    slow_down(&mut fixture);
    let recovering =
        fixture.command(&["recover"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let recovering = recovering.unwrap();
    fixture.consumer().read_n(1, SOON);
    kill_process(pid(&recovering), Signal::TERM).unwrap();
    let output = recovering.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(has_job(&fixture), "the missing rows are not recorded anywhere:\n{stderr}");
    speed_up(&mut fixture);
    assert_eq!(fixture.run(&["recover"]).status.code(), Some(0));
    assert_all_published(&fixture);
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
