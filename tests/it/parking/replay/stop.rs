//! A replay that is interrupted.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::parked_events::{BINARY, ParkedEvent, count, insert_all, run_command, states};
use testkit::fixture::Fixture;
use testkit::guardian::{Ending, GuardedProcess};
use testkit::port::free_port;
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(60);
const EVENTS: usize = 400;

#[track_caller]
fn slow_replay(name: &str) -> (Fixture, GuardedProcess) {
    let mut fixture = Fixture::new(BINARY, name);
    let topic = fixture.create_topic("t", 1, &[]);
    let rows: Vec<ParkedEvent> =
        (0..EVENTS as i64).map(|it| ParkedEvent::keyed(&topic, it, "k")).collect();
    insert_all(&fixture, &rows);
    let mut process = GuardedProcess::new("replay", Ending::Kill);
    process.start(fixture.command(&["replay", "--all", "--rate", "100"]));
    wait_until("some events to be replayed", SOON, || count(&fixture, "delivered") >= 50);
    (fixture, process)
}

/// How often each event is in Kafka, and whether the first occurrences are in order.
#[track_caller]
fn published(fixture: &Fixture) -> HashMap<i64, usize> {
    let distinct = |records: &[testkit::consumer::Received]| {
        records.iter().map(|record| record.id().to_owned()).collect::<HashSet<_>>().len()
    };
    let consumer = fixture.consumer();
    let mut records = consumer.read_until(SOON, |records| distinct(records) == EVENTS);
    records.extend(consumer.drain_quiet(Duration::from_millis(500)));
    let mut seen = HashMap::new();
    let mut newest = -1;
    for record in &records {
        let id: i64 = record.id().parse().unwrap();
        let times = seen.entry(id).or_insert(0);
        *times += 1;
        assert!(*times > 1 || id == newest + 1, "{id} came first after {newest}");
        newest = newest.max(id);
    }
    seen
}

#[test]
fn a_killed_replay_resumes_and_repeats_no_marked_event() {
    let (fixture, mut process) = slow_replay("killed");
    process.kill9();
    wait_until("Postgres to notice that it is gone", SOON, || {
        let sql = "SELECT count(*) = 0 FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name = 'postrider replay'";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    let sql = "SELECT ordinal FROM postrider.undelivered WHERE status = 'delivered'";
    let marked: Vec<i64> =
        fixture.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(marked.len() >= 50 && marked.len() < EVENTS, "{}", marked.len());
    assert_eq!(count(&fixture, "dead") as usize, EVENTS - marked.len());
    run_command(&fixture, &["replay", "--all"], 0);
    let seen = published(&fixture);
    for ordinal in marked {
        assert_eq!(seen[&ordinal], 1, "event {ordinal} was marked and published again");
    }
    assert_eq!(count(&fixture, "delivered") as usize, EVENTS);
}

#[test]
fn a_stopped_replay_finishes_its_batch() {
    let (fixture, mut process) = slow_replay("stopped");
    process.signal(Signal::INT);
    let status = process.wait(SOON).expect("it did not stop");
    let log = process.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("left: run replay again"), "{log}");
    let left = count(&fixture, "dead");
    assert!(left > 0 && left as usize + count(&fixture, "delivered") as usize == EVENTS, "{left}");
    run_command(&fixture, &["replay", "--all"], 0);
    assert!(published(&fixture).values().all(|times| *times == 1));
}

#[test]
fn a_replay_without_a_broker_reports_the_cause_and_loses_nothing() {
    let mut fixture = Fixture::new(BINARY, "away");
    let topic = fixture.create_topic("t", 1, &[]);
    insert_all(&fixture, &[ParkedEvent::keyed(&topic, 1, "k"), ParkedEvent::dead(&topic, 2)]);
    let brokers = fixture.broker().brokers().to_owned();
    // A stopped broker: nothing listens there.
    fixture.set("POSTRIDER_BROKERS", &format!("127.0.0.1:{}", free_port()));
    let output = fixture.run(&["replay", "--all"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let lines = "replay was interrupted: no broker could be reached for ";
    let summary = String::from_utf8_lossy(&output.stdout);
    let is_reported = errors.contains(lines) && errors.contains("Connection refused");
    assert!(is_reported, "{errors}\n{summary}");
    assert_eq!(states(&fixture), ["1 dead 0", "2 dead 0"]);
    fixture.set("POSTRIDER_BROKERS", &brokers);
    run_command(&fixture, &["replay", "--all"], 0);
    assert_eq!(states(&fixture), ["1 delivered 1", "2 delivered 1"]);
}
