//! Anybody can write messages with our prefix: they cost little and stop nothing.

use super::{SOON, emit, fixture};
use crate::harness::metrics::metric;
use testkit::wait::wait_until;

#[test]
fn the_first_thousand_are_kept_and_the_rest_are_counted() {
    let mut fixture = fixture("message_flood");
    fixture.set("POSTRIDER_UNDELIVERED_BREAKER_BYTES", "1MiB");
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let flood =
        "SELECT pg_logical_emit_message(true, 'postrider', '') FROM generate_series(1, 3000)";
    fixture.client().execute(flood, &[]).unwrap();
    let good = emit(&fixture, &topic, None);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), good);
    let ignored = "postrider_ignored_messages_total{kind=\"malformed_message\"}";
    wait_until("the rest to be counted", SOON, || metric(fixture.relay(), ignored) == Some(2000.0));
    let parked = || -> i64 {
        let sql = "SELECT count(*) FROM postrider.undelivered";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    };
    wait_until("the first to be parked", SOON, || parked() >= 1000);
    assert_eq!(parked(), 1000);
    let log = fixture.relay().log();
    assert!(!log.contains("the circuit breaker has opened"), "{log}");
}
