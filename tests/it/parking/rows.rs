//! Rows that can't become a record, or only an invalid one.

use super::{BINARY, SOON, assert_no_marker, wait_statuses, with_fast_poller, write};
use crate::harness::metrics::metric;
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

#[test]
fn a_bad_row_is_dead_and_the_rest_is_published() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "bad_rows"));
    let topic = fixture.create_topic("events", 1, &[]);
    let mut good = Vec::new();
    for number in 0..5 {
        good.push(write(&fixture, &topic, None, "{}"));
        write(&fixture, &topic, None, "[1]");
        write(&fixture, "not a topic!", None, "{}");
        good.push(write(&fixture, &topic, Some(&format!("k{number}")), "{}"));
    }
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(good.len(), SOON);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, good);
    wait_statuses(&fixture, &[("dead", 10)]);
    wait_confirmed(&fixture);
    let sql = "SELECT DISTINCT reason, form, topic = 'not a topic!' FROM postrider.undelivered
        ORDER BY 1";
    let rows = fixture.client().query(sql, &[]).unwrap();
    let found: Vec<(String, String, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let expect = |reason: &str, illegal| (reason.to_owned(), "fragment".to_owned(), illegal);
    assert_eq!(found, [expect("bad-headers", false), expect("illegal-topic", true)]);
    let series = format!("outbox_dead_total{{table=\"public.outbox\",topic=\"{topic}\"}}");
    assert_eq!(metric(fixture.relay(), &series), Some(5.0));
    assert_no_marker(&mut fixture);
}

#[test]
fn the_same_event_parked_again_is_the_same_row() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "again"));
    let topic = fixture.create_topic("events", 1, &[]);
    for _ in 0..20 {
        write(&fixture, &topic, None, "[1]");
    }
    let last = write(&fixture, &topic, None, "{}");
    // A slot that does not advance: the relay returns to it as if it had confirmed nothing.
    let mut client = fixture.client();
    let slot = fixture.slot().to_owned();
    let kept = format!("{slot}_kept");
    let copy = "SELECT pg_copy_logical_replication_slot($1, $2)";
    client.execute(copy, &[&slot, &kept]).unwrap();
    for times in 1..=3 {
        fixture.start_relay();
        let records = fixture.consumer().read_n(times, SOON);
        assert!(records.iter().all(|record| record.id() == last));
        wait_confirmed(&fixture);
        wait_statuses(&fixture, &[("dead", 20)]);
        fixture.relay().kill9();
        wait_until("the slot to be free", SOON, || fixture.slot_holder().is_none());
        fixture.forget_slot();
        client.execute(copy, &[&kept, &slot]).unwrap();
    }
    client.execute("SELECT pg_drop_replication_slot($1)", &[&kept]).unwrap();
}
