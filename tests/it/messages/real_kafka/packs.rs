//! Packs that are half published when something happens.

use super::super::content::{event, pack};
use super::super::malformed::forge;
use super::super::{BINARY, SOON, emit_batch};
use crate::harness::metrics::{metric, state};
use testkit::check::Expected;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

/// Fewer events than in a pack.
const IN_FLIGHT_MAX: usize = 50;
const EVENTS: usize = 100_000;
/// As much as a relay takes for rows.
const PEAK_RSS_BYTES_MAX: u64 = 64 << 20;

/// A stopped broker, and events that wait for it in packs; the relay has worked before.
#[track_caller]
fn blocked(name: &str) -> (KafkaServer, Fixture, String, Expected) {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let postgres = shared::postgres();
    let mut fixture = Fixture::on(BINARY, name, &postgres.address(), &kafka.broker());
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", &IN_FLIGHT_MAX.to_string());
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut expected = Expected::default();
    let mut push = |ids: Vec<String>| ids.iter().for_each(|id| expected.push(&topic, "k", id));
    push(emit_batch(&mut fixture.client(), &topic, "k", 1));
    fixture.consumer().read_n(1, SOON);
    kafka.stop();
    push(emit_batch(&mut fixture.client(), &topic, "k", EVENTS));
    let end = "SELECT pg_current_wal_lsn()::text";
    let end: String = fixture.client().query_one(end, &[]).unwrap().get(0);
    wait_until("the relay to report that it is blocked", SOON, || {
        state(fixture.relay()) == "blocked-on-broker"
    });
    let in_flight = metric(fixture.relay(), "postrider_in_flight_events");
    assert_eq!(in_flight, Some(IN_FLIGHT_MAX as f64));
    let confirmed = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    let confirmed = fixture.client().query_one(confirmed, &[&fixture.slot(), &end]).unwrap();
    assert!(!confirmed.get::<_, bool>(0), "confirmed without the broker");
    (kafka, fixture, topic, expected)
}

#[track_caller]
fn read_all(fixture: &Fixture, expected: Expected) {
    let all = expected.len();
    let mut seen = std::collections::HashSet::new();
    let mut counted = 0;
    let enough = |records: &[Received]| {
        seen.extend(records.iter().skip(counted).map(|record| record.id().to_owned()));
        counted = records.len();
        seen.len() >= all
    };
    let records = fixture.consumer().read_until(SOON, enough);
    // A broker may stop after writing a batch and before answering.
    expected.verdict(&records).assert_at_least_once(None);
}

#[test]
fn events_beyond_the_limit_wait_in_their_pack() {
    let (mut kafka, mut fixture, _, expected) = blocked("pack_blocked");
    kafka.start_again();
    read_all(&fixture, expected);
    let peak = fixture.relay().peak_rss_bytes();
    assert!(peak <= PEAK_RSS_BYTES_MAX, "the relay took {peak} bytes of memory");
}

#[test]
fn a_kill_in_the_middle_of_a_pack_loses_nothing() {
    let (mut kafka, mut fixture, topic, mut expected) = blocked("pack_killed");
    fixture.relay().kill9();
    kafka.start_again();
    // Repeatedly, each time somewhere in the packs.
    for part in 1..=4 {
        fixture.start_relay().wait_ready(SOON);
        let published = part * EVENTS as i64 / 5;
        wait_until("a part of the packs", SOON, || {
            fixture.consumer().end_offsets(&topic)[0] > published
        });
        fixture.relay().kill9();
    }
    fixture.start_relay().wait_ready(SOON);
    for id in emit_batch(&mut fixture.client(), &topic, "k", 10) {
        expected.push(&topic, "k", id);
    }
    read_all(&fixture, expected);
}

#[test]
fn a_large_pack_is_processed_in_place() {
    const SIZE: usize = 30 << 20;
    let mut fixture = super::super::fixture("pack_large");
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_BYTES", "1MiB");
    let topic = fixture.create_topic("orders", 1, &[]);
    let payload = vec![b'x'; 1000];
    let events: Vec<Vec<u8>> =
        (0..SIZE / 1000).map(|number| event(&number.to_string(), &topic, &payload)).collect();
    forge(&fixture, &pack(&events));
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(events.len(), SOON);
    assert!(records.iter().enumerate().all(|(number, it)| it.id() == number.to_string()));
    // It is received as a whole, but nothing more is copied.
    let peak = fixture.relay().peak_rss_bytes();
    assert!(peak <= PEAK_RSS_BYTES_MAX + 2 * SIZE as u64, "the relay took {peak} bytes of memory");
}
