//! An event out of attempts, and what remains of one that was delivered.

use super::super::{BINARY, QUIET, SOON, assert_no_marker, wait_statuses, with_fast_poller, write};
use crate::harness::metrics::metric;
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[test]
fn an_event_out_of_attempts_is_dead() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "attempts"));
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "3");
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    let first = write(&fixture, &missing, Some("k"), "{}");
    write(&fixture, &missing, Some("k"), "{}");
    wait_statuses(&fixture, &[("dead", 1), ("pending", 1)]);
    let sql = "SELECT row_id, attempts, reason, last_error FROM postrider.undelivered
        WHERE status = 'dead'";
    let row = fixture.client().query_one(sql, &[]).unwrap();
    let found: (&str, i32, &str, &str) = (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(found, (first.as_str(), 3, "topic-missing", "the topic does not exist"));
    // The event that waits for it was never tried, and is not due.
    let sql = "SELECT attempts, reason, next_attempt_at = 'infinity' FROM postrider.undelivered
        WHERE status = 'pending'";
    wait_until("the other to be released", SOON, || {
        let row = fixture.client().query_one(sql, &[]).unwrap();
        let found: (i32, String, bool) = (row.get(0), row.get(1), row.get(2));
        found == (0, "behind".to_owned(), true)
    });

    let series = format!("{{table=\"public.outbox\",topic=\"{missing}\"}}");
    let relay = fixture.relay();
    assert_eq!(metric(relay, &format!("outbox_dead_total{series}")), Some(1.0));
    wait_until("the side table to be counted", SOON, || {
        metric(relay, &format!("outbox_dead_events{series}")) == Some(1.0)
            && metric(relay, "outbox_pending_count{table=\"public.outbox\"}") == Some(1.0)
    });
    // It holds its key even when the topic exists.
    fixture.create_topic("missing", 1, &[]);
    write(&fixture, &missing, Some("k"), "{}");
    let other = write(&fixture, &missing, Some("other"), "{}");
    wait_confirmed(&fixture);
    let consumer = fixture.consumer();
    let mut records = consumer.read_n(1, SOON);
    records.extend(consumer.drain_quiet(QUIET));
    assert_eq!(records.len(), 1, "an event has overtaken another");
    assert_eq!(records[0].id(), other);
    assert_no_marker(&mut fixture);
}

#[test]
fn finished_events_are_deleted_after_their_retention() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "retention"));
    let missing = fixture.topic("missing");
    fixture.start_relay().wait_ready(SOON);
    for _ in 0..20 {
        write(&fixture, &missing, None, "{}");
    }
    write(&fixture, &missing, None, "[]");
    wait_statuses(&fixture, &[("dead", 1), ("pending", 20)]);
    fixture.create_topic("missing", 1, &[]);
    wait_statuses(&fixture, &[("dead", 1), ("delivered", 20)]);
    wait_confirmed(&fixture);
    // As long as the cleaner could need them, they would be kept.
    fixture.set("POSTRIDER_CLEANER_ENABLED", "false");
    // Nothing is deleted too early; the side table is cleaned at startup.
    for (retention, left) in
        [("1h", &[("dead", 1), ("delivered", 20)][..]), ("1ms", &[("dead", 1)])]
    {
        fixture.relay().terminate();
        fixture.relay().wait_exit(SOON);
        fixture.set("POSTRIDER_UNDELIVERED_RETENTION", retention);
        fixture.start_relay().wait_ready(SOON);
        let relay = fixture.relay();
        wait_until("the side table to be counted", SOON, || {
            let topic = format!("{{table=\"public.outbox\",topic=\"{missing}\"}}");
            metric(relay, &format!("outbox_dead_events{topic}")) == Some(1.0)
        });
        wait_statuses(&fixture, left);
    }
}
