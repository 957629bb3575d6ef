//! Topics that are not there yet, or gone for a while.

use std::time::{Duration, Instant};

use super::super::{BINARY, SOON, hurried, wait_confirmed, wait_statuses, write};
use crate::metric::metric_sum;
use crate::support::check::Expected;
use crate::support::fixture::Fixture;

/// How long a missing topic may hold up the others, once.
const DELAY_MAX: Duration = Duration::from_secs(5);

#[test]
fn a_missing_topic_holds_nobody_up_and_its_events_come_later() {
    let mut fixture = hurried(Fixture::new(BINARY, "missing_topic"));
    let good = fixture.create_topic("good", 1, &[]);
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    let mut expected = Expected::default();
    let mut parked = Vec::new();
    for round in 0..5 {
        for number in 0..20 {
            let key = format!("k{}", number % 4);
            parked.push((key.clone(), write(&fixture, &missing, Some(&key), "{}")));
        }
        let written = Instant::now();
        write(&fixture, &good, None, "{}");
        consumer.read_n(1, SOON);
        let delay = written.elapsed();
        assert!(delay < DELAY_MAX, "delayed for {delay:?}");
        assert!(round == 0 || delay < Duration::from_secs(2), "delayed again, for {delay:?}");
    }
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("pending", 100)]);
    let before = metric_sum(fixture.relay(), "postrider_restarts_total");

    fixture.create_topic("missing", 3, &[]);
    wait_statuses(&fixture, &[("delivered", 100)]);
    for (key, id) in &parked {
        expected.push(&missing, key, id);
    }
    // New ones go directly.
    for number in 0..20 {
        let key = format!("k{}", number % 4);
        expected.push(&missing, &key, write(&fixture, &missing, Some(&key), "{}"));
    }
    let consumer = crate::support::consumer::Consumer::new(fixture.broker(), &[&missing]);
    let records = consumer.read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    let after = metric_sum(fixture.relay(), "postrider_restarts_total");
    assert_eq!(before, after, "it has restarted");
    let sql = "SELECT count(*) FROM postrider.undelivered";
    let count: i64 = fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert!(count < 120, "new events are parked still");
}

#[test]
fn an_event_that_can_never_be_published_is_dead_also_behind_another() {
    let mut fixture = hurried(Fixture::new(BINARY, "dead_behind"));
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &missing, Some("k"), "{}");
    write(&fixture, &missing, Some("k"), "[]");
    write(&fixture, &missing, Some("k"), "{}");
    wait_confirmed(&fixture);
    wait_statuses(&fixture, &[("dead", 1), ("pending", 2)]);
    fixture.create_topic("missing", 1, &[]);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), first);
    wait_statuses(&fixture, &[("delivered", 1), ("dead", 1), ("pending", 1)]);
}
