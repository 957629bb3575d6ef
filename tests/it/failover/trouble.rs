//! Recovering while others do the same, or while what it needs is unreachable.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{BINARY, SOON, judge, recover, stop, text};
use crate::harness::outbox::write;
use crate::harness::rig::{print_line, wait_caught_up};
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::wait::wait_until;

/// A relay has published a thousand events and was stopped; its slot was dropped, and more rows
/// were written.
#[track_caller]
fn lost(name: &str) -> (Fixture, String) {
    let mut fixture = Fixture::new(BINARY, name);
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 1_000, 10);
    wait_caught_up(&mut fixture);
    stop(&mut fixture);
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    write(&fixture, &topic, 5_000, 100);
    (fixture, topic)
}

fn begin(fixture: &Fixture) -> Child {
    let mut command = fixture.command(&["recover"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cannot start recover")
}

/// The relay streams again, and nothing is missing.
#[track_caller]
fn assert_recovered(fixture: &mut Fixture, topic: &str, what: &str) {
    fixture.relay().wait_ready(SOON);
    write(fixture, topic, 100, 10);
    judge(fixture, what).assert_at_least_once(None);
}

#[test]
fn concurrent_recoveries_wait_for_each_other() {
    let (mut fixture, topic) = lost("several");
    let recoveries: Vec<Child> = (0..3).map(|_| begin(&fixture)).collect();
    for mut recovering in recoveries {
        wait_until("each to end", SOON, || recovering.try_wait().unwrap().is_some());
        let output = recovering.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let stdout = String::from_utf8_lossy(&output.stdout);
        print_line(stdout.lines().last().unwrap_or_default());
    }
    fixture.start_relay();
    assert_recovered(&mut fixture, &topic, "recovered by three at once");
}

/// Like a service manager, which restarts a relay that gives up.
#[test]
fn a_repeatedly_restarted_relay_does_not_disturb_a_recovery() {
    let (mut fixture, topic) = lost("again");
    fixture.start_relay();
    let mut recovering = begin(&fixture);
    let mut starts = 1;
    wait_until("the relay to stay", SOON, || {
        if !fixture.relay().is_running() {
            starts += 1;
            fixture.start_relay();
        }
        matches!(fixture.relay().http_get("/readyz"), Ok((200, _)))
    });
    wait_until("recover to end", SOON, || recovering.try_wait().unwrap().is_some());
    let output = recovering.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    print_line(&format!("the relay was started {starts} times beside recover"));
    assert_recovered(&mut fixture, &topic, "recovered beside a relay");
}

#[test]
fn an_unreachable_broker_is_waited_for_and_giving_up_loses_nothing() {
    let (mut fixture, topic) = lost("no_broker");
    let brokers = fixture.broker().brokers().to_owned();
    fixture.set("POSTRIDER_BROKERS", &format!("127.0.0.1:{}", free_port()));
    let recovering = begin(&fixture);
    wait_until("it reads the table", SOON, || {
        let sql = "SELECT count(*) > 0 FROM pg_stat_activity
            WHERE application_name = 'postrider snapshot' AND datname = current_database()";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    let pid = Pid::from_raw(recovering.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let output = recovering.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("interrupted"), "{}", text(&output));
    fixture.set("POSTRIDER_BROKERS", &brokers);
    recover(&fixture);
    fixture.start_relay();
    assert_recovered(&mut fixture, &topic, "recovered when the broker was back");
}

#[test]
fn a_slot_of_another_database_is_not_touched() {
    let (fixture, _) = lost("other_database");
    let sql = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    let mut elsewhere = fixture.postgres().client("postgres");
    elsewhere.execute(sql, &[&fixture.slot()]).unwrap();
    let output = fixture.run(&["recover"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("belongs to database postgres"), "{}", text(&output));
    elsewhere.execute("SELECT pg_drop_replication_slot($1)", &[&fixture.slot()]).unwrap();
}
