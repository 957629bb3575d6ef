//! The log: few lines, and one object per line in JSON.

use serde_json::Value;

use super::{BINARY, SOON, write_events};
use testkit::fixture::Fixture;

/// A calm run from start to stop; returns its log.
#[track_caller]
fn calm_run(fixture: &mut Fixture) -> String {
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write_events(fixture, &topic, 50);
    fixture.consumer().read_n(50, SOON);
    let relay = fixture.relay();
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0), "{}", relay.log());
    relay.log()
}

#[test]
fn a_calm_run_logs_little_and_first_where_it_begins() {
    let mut fixture = Fixture::new(BINARY, "quiet");
    fixture.unset("POSTRIDER_LOG");
    let log = calm_run(&mut fixture);
    assert!(log.lines().count() < 10, "too many lines:\n{log}");
    // The embedded broker does not report the limits of topics, and the relay warns about that.
    assert!(fixture.broker().is_mock() || !log.contains("WARN"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    let first = log.lines().next().unwrap();
    let topics = ["public.outbox", fixture.slot(), fixture.broker().brokers()];
    for part in topics {
        assert!(first.contains(part), "{part} is not in the first line:\n{log}");
    }
    let from = first.split("from=").nth(1).expect("no start position");
    assert!(from.starts_with(|c: char| c.is_ascii_hexdigit()), "{log}");
}

#[test]
fn a_json_log_is_one_object_per_line() {
    let mut fixture = Fixture::new(BINARY, "json");
    fixture.set("POSTRIDER_LOG_FORMAT", "json");
    fixture.set("POSTRIDER_LOG", "debug");
    let log = calm_run(&mut fixture);
    assert!(!log.is_empty(), "nothing was checked");
    for line in log.lines() {
        let object: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error} in the line {line:?}"));
        for field in ["timestamp", "level", "message"] {
            assert!(object[field].is_string(), "no {field} in {line}");
        }
    }
}
