//! Parking is always logged, and a flood of events does not cause a flood of lines.

use super::{BINARY, MARKER, SOON, assert_no_marker, wait_statuses, with_fast_poller, write};
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const PARKED_LINE: &str = "an event could not be published and was parked";

#[test]
fn the_first_event_of_a_kind_is_logged_with_everything_that_identifies_it() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "logged"));
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let sql = "INSERT INTO public.outbox (topic, tenant, idempotency_key, payload, headers)
        VALUES ($1, 'acme', 'order-17', to_json($2::text), '[1]') RETURNING id::text";
    let id: String = fixture.client().query_one(sql, &[&topic, &MARKER]).unwrap().get(0);
    wait_until("a line about it", SOON, || fixture.relay().log().contains(PARKED_LINE));
    let log = fixture.relay().log();
    let line = log.lines().find(|line| line.contains(PARKED_LINE)).unwrap();
    let row_id = format!("row_id=\"{id}\"");
    let parts = ["WARN", &row_id, "acme", "order-17", &topic, "bad-headers", "count=1"];
    for part in parts {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let command = line.split("command=\"postrider ").nth(1).unwrap().split('"').next().unwrap();
    let arguments: Vec<&str> = command.split(' ').collect();
    let listed = fixture.run(&[arguments.as_slice(), &["--json"]].concat());
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(&format!("\"row_id\":\"{id}\"")), "{command} shows {listed}");

    for _ in 0..300 {
        write(&fixture, &topic, None, "[1]");
    }
    for number in 0..40 {
        write(&fixture, &format!("no topic {number}"), None, "{}");
    }
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 341)]);
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    let log = fixture.relay().log();
    assert!(log.matches(PARKED_LINE).count() <= 20, "a line for each:\n{log}");
    let sum = log.lines().find(|line| line.contains("more events were parked")).expect("a sum");
    assert!(sum.contains("WARN") && sum.contains("dead="), "{sum}");
    assert_no_marker(&mut fixture);
}

/// All events of a topic that disappears become dead at once.
#[test]
fn a_flood_of_dead_events_is_logged_as_one_line_and_a_sum() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "told_deaths"));
    let topic = fixture.create_topic("events", 1, &[("max.message.bytes", "20000")]);
    let sql =
        "INSERT INTO postrider.undelivered (slot, source_table, row_id, commit_lsn, ordinal, \
            topic, value, value_bytes, headers, \"timestamp\", form, status, reason)
        SELECT $1, 'public.outbox', n::text, '0/100', n, 'no topic', '', 0, '[]', now(), 'whole', \
            'pending', 'refused' FROM generate_series(1, 400) n";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    write(&fixture, &topic, None, "{}");
    fixture.start_relay().wait_ready(SOON);
    wait_statuses(&fixture, &[("dead", 400)]);
    let lines = fixture.relay().log().matches("a parked event is dead").count();
    assert!((1..=20).contains(&lines), "{lines} lines:\n{}", fixture.relay().log());
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    let log = fixture.relay().log();
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {line}"));
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let number_after = |text: &str, name: &str| -> u64 {
        log.lines().filter(|line| line.contains(text)).map(|line| number(line, name)).sum()
    };
    let single = number_after("a parked event is dead", " count=");
    let summed = number_after("more parked events became dead", " dead=");
    assert_eq!(single + summed, 400, "dead events that were not logged:\n{log}");
}
