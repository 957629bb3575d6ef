//! A registry that can't be asked: events that need it wait, and no others do.

use super::super::{
    PLAIN, PLAIN_ID, QUIET, SOON, framed, parked, subject, values, wait_blocked, wait_parked,
    with_registry, write,
};
use crate::harness::metrics::metric_sum;
use crate::harness::slot::wait_confirmed;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::registry_stub::Behaviour;
use testkit::wait::wait_until;

/// Writes an event that needs no registry, and waits for its record.
#[track_caller]
fn assert_others_continue(fixture: &Fixture, consumer: &Consumer, plain: &str) {
    write(fixture, plain, None, "[]");
    assert_eq!(values(&consumer.read_n(1, SOON)), [framed(PLAIN_ID, "[]")]);
}

#[track_caller]
fn assert_nothing_parked(fixture: &Fixture) {
    let sql = "SELECT count(*) FROM postrider.undelivered";
    let count: i64 = fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(count, 0);
}

#[test]
fn a_registry_that_is_down_at_the_start_holds_its_events_and_no_others() {
    let (mut stub, mut fixture) = with_registry("registry_down");
    let topic = fixture.create_topic("t", 1, &[]);
    let plain = fixture.create_topic(PLAIN, 1, &[]);
    let others = Consumer::new(fixture.broker(), &[&plain]);
    stub.register(&subject(&topic), 7, None);
    stub.stop();
    fixture.start_relay().wait_ready(SOON);
    let ids: Vec<String> = (0..10).map(|_| write(&fixture, &topic, Some("k"), "{}")).collect();
    let sql = "SELECT pg_current_wal_insert_lsn()::text";
    let written: String = fixture.client().query_one(sql, &[]).unwrap().get(0);
    let what = format!("the schema registry at http://localhost:{} can't be used", stub.port());
    for _ in 0..3 {
        assert_others_continue(&fixture, &others, &plain);
    }
    // Others are acknowledged all the time.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mut client, plain, stop) = (fixture.client(), &plain, &stop);
        scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '[]')";
                client.execute(sql, &[plain]).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        });
        let topic = format!("topic {topic:?} holds the position");
        wait_blocked(&mut fixture, &[&topic, &what, "can't connect", "fix: check that"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let sql = "SELECT confirmed_flush_lsn < $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    let is_held = fixture.client().query_one(sql, &[&fixture.slot(), &written]).unwrap();
    assert!(is_held.get::<_, bool>(0));
    let restarts = metric_sum(fixture.relay(), "postrider_restarts_total");
    let log = fixture.relay().log();
    assert_eq!(log.matches(&what).count(), 1, "{log}");

    stub.resume();
    fixture.relay().wait_ready(SOON);
    wait_confirmed(&fixture);
    let consumer = Consumer::new(fixture.broker(), &[&topic]);
    let mut records = consumer.read_n(10, SOON);
    records.extend(consumer.drain_quiet(QUIET));
    assert_eq!(records.iter().map(|it| it.id()).collect::<Vec<_>>(), ids);
    assert!(records.iter().all(|it| it.value == framed(7, "{}")));
    assert_nothing_parked(&fixture);
    assert_eq!(metric_sum(fixture.relay(), "postrider_restarts_total"), restarts);
    assert!(fixture.relay().log().contains("the schema registry answers again"));
}

#[test]
fn whatever_is_wrong_with_it_is_reported_and_passes() {
    let (stub, mut fixture) = with_registry("registry_wrong");
    let known = fixture.create_topic("known", 1, &[]);
    let plain = fixture.create_topic(PLAIN, 1, &[]);
    stub.register(&subject(&known), 1, None);
    fixture.start_relay().wait_ready(SOON);
    let others = Consumer::new(fixture.broker(), &[&plain]);
    let of_known = Consumer::new(fixture.broker(), &[&known]);
    write(&fixture, &known, None, "{}");
    assert_eq!(values(&of_known.read_n(1, SOON)), [framed(1, "{}")]);
    for (number, (behaviour, expect)) in [
        (Behaviour::Status(500), ["it answers with status 500", "the registry's log"]),
        (Behaviour::Status(403), ["it answers with status 403", "allow the user"]),
        (Behaviour::Status(301), ["it answers with status 301", "redirects are not followed"]),
        (Behaviour::Status(404), ["it answers with status 404", "the path that comes before"]),
        (Behaviour::Says("garbage\r\n\r\n"), ["the connection broke", "is its address"]),
        (
            Behaviour::Says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
            ["not that of a schema registry", "the path that comes before"],
        ),
        (Behaviour::Silent, ["has not answered for", "the schema registry at"]),
    ]
    .into_iter()
    .enumerate()
    {
        let topic = fixture.create_topic(&format!("t{number}"), 1, &[]);
        stub.register(&subject(&topic), 7, None);
        stub.behave(behaviour.clone());
        write(&fixture, &topic, None, "{}");
        wait_blocked(&mut fixture, &expect);
        assert_others_continue(&fixture, &others, &plain);
        // What was asked before is still known.
        write(&fixture, &known, None, "{}");
        assert_eq!(values(&of_known.read_n(1, SOON)), [framed(1, "{}")]);
        stub.behave(Behaviour::Answers);
        let consumer = Consumer::new(fixture.broker(), &[&topic]);
        assert_eq!(values(&consumer.read_n(1, SOON)), [framed(7, "{}")], "{behaviour:?}");
        fixture.relay().wait_ready(SOON);
    }
    assert_nothing_parked(&fixture);
    assert_eq!(stub.asked(&subject(&known)), 1);
}

#[test]
fn parked_events_wait_for_the_registry_without_an_attempt_and_delay_no_others() {
    let (mut stub, mut fixture) = with_registry("registry_parked");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "10000");
    let topic = fixture.create_topic("t", 1, &[]);
    let missing = fixture.topic(PLAIN);
    fixture.start_relay().wait_ready(SOON);
    let unknown = write(&fixture, &topic, Some("k"), "{}");
    wait_parked(&fixture, &unknown, "pending");
    let other = write(&fixture, &missing, None, "[]");
    wait_parked(&fixture, &other, "pending");
    wait_confirmed(&fixture);
    stub.behave(Behaviour::Status(503));
    stub.register(&subject(&topic), 7, None);
    let asked = stub.asked(&subject(&topic));
    wait_until("the poller to be refused", SOON, || stub.asked(&subject(&topic)) > asked);
    let attempts = parked(&fixture, &unknown).unwrap().3;
    // It is claimed again, postponed again, and asked about again.
    for _ in 0..2 {
        let asked = stub.asked(&subject(&topic));
        wait_until("the poller to ask again", SOON, || stub.asked(&subject(&topic)) > asked);
    }
    fixture.create_topic(PLAIN, 1, &[]);
    wait_parked(&fixture, &other, "delivered");
    let (reason, _, after) = wait_parked(&fixture, &unknown, "pending");
    // Claiming counts one, and postponing takes it back.
    assert!(after <= attempts + 1, "{after} attempts after {attempts}");
    assert_eq!(reason, "schema-missing");
    stub.stop();
    stub.behave(Behaviour::Answers);
    stub.resume();
    wait_parked(&fixture, &unknown, "delivered");
    let records = Consumer::new(fixture.broker(), &[&topic]).read_n(1, SOON);
    assert_eq!(values(&records), [framed(7, "{}")]);
}
