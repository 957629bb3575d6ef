//! Volumes that only a real broker can hold.

use std::time::Duration;

use postgres::types::PgLsn;

use crate::harness::checked_read::CheckedRead;
use crate::harness::metrics::{metric, state};
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);
const DRAIN_WITHIN: Duration = Duration::from_secs(240);

const PEAK_RSS_BYTES_MAX: u64 = 48 << 20;

const PARTITIONS: i32 = 6;
const KEYS: u32 = 100;

#[test]
fn a_transaction_of_500_000_rows_takes_bounded_memory() {
    const ROWS: u32 = 500_000;
    let mut fixture = Fixture::new(BINARY, "big");
    let topic = fixture.create_topic("orders", PARTITIONS, &[]);
    fixture.start_relay().wait_ready(SOON);
    insert(&fixture, &topic, 1, ROWS);
    let mut read = CheckedRead::new(&fixture, expected(&topic, ROWS));
    read.until_complete(DRAIN_WITHIN);
    assert_memory_bounded(&mut fixture);
    read.verdict_at_the_end(&mut fixture, &[topic]).assert_exact();
}

#[test]
fn a_backlog_of_large_events_takes_bounded_memory() {
    const ROWS: u32 = 1_000;
    // All in flight at once would take 200 MB, though they are few.
    const PAYLOAD_BYTES: u32 = 200_000;
    let mut fixture = Fixture::new(BINARY, "large");
    let topic = fixture.create_topic("orders", PARTITIONS, &[]);
    insert_sized(&fixture, &topic, 1, ROWS, PAYLOAD_BYTES);
    fixture.start_relay().wait_ready(SOON);
    let mut read = CheckedRead::new(&fixture, expected(&topic, ROWS));
    read.until_complete(DRAIN_WITHIN);
    assert_memory_bounded(&mut fixture);
    read.verdict_at_the_end(&mut fixture, &[topic]).assert_exact();
}

#[test]
fn a_million_rows_waiting_for_a_stopped_broker_take_bounded_memory() {
    const ROWS: u32 = 1_000_000;
    const TRANSACTIONS: u32 = 20;
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let postgres = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "down", &postgres.address(), &kafka.broker());
    let topic = fixture.create_topic("orders", PARTITIONS, &[]);
    fixture.start_relay().wait_ready(SOON);
    // The relay has worked before the broker stops: its first event is confirmed.
    insert(&fixture, &topic, 1, 1);
    fixture.consumer().read_n(1, SOON);

    kafka.stop();
    let step = ROWS / TRANSACTIONS;
    insert(&fixture, &topic, 2, step);
    let behind_first = wal_end(&fixture);
    wait_until("the relay to report that it is blocked", SOON, || {
        state(fixture.relay()) == "blocked-on-broker"
    });
    for number in 1..TRANSACTIONS {
        insert(&fixture, &topic, number * step + 1, (number + 1) * step);
    }
    assert_alive_and_blocked(&mut fixture);
    // Earlier events may still have been confirmed, but none of the waiting ones.
    assert!(confirmed(&fixture) < behind_first, "confirmed without the broker");

    kafka.start_again();
    let mut read = CheckedRead::new(&fixture, expected(&topic, ROWS));
    read.until_complete(DRAIN_WITHIN);
    fixture.relay().wait_ready(SOON);
    assert_memory_bounded(&mut fixture);
    // A broker may stop after writing a batch and before answering.
    let verdict = read.verdict_at_the_end(&mut fixture, &[topic]);
    println!("{verdict}");
    verdict.assert_at_least_once(None);
}

/// Few events among many rows of another table: each once kept all the data that arrived with it.
#[test]
fn events_in_flight_keep_nothing_of_the_data_that_arrived_with_them() {
    const ROWS: u32 = 1_000;
    let kafka = KafkaServer::start(KafkaOptions::default());
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "sparse", &postgres, &kafka.broker());
    let tables = "create publication postrider for all tables;
        create table noise (text text); alter table noise alter column text set storage external";
    fixture.client().batch_execute(tables).unwrap();
    fixture.migrate();
    let topic = fixture.create_topic("orders", PARTITIONS, &[]);
    fixture.start_relay().wait_ready(SOON);
    insert(&fixture, &topic, 1, 1);
    fixture.consumer().read_n(1, SOON);

    kafka.pause();
    let sql = format!(
        "do $$ begin for g in 2..{ROWS} loop
             insert into outbox (topic, payload, ordering_key, idempotency_key)
             values ('{topic}', '{{}}', 'key-' || g % {KEYS}, g::text);
             insert into noise values (repeat('x', 150000));
         end loop; end $$"
    );
    fixture.client().batch_execute(&sql).unwrap();
    wait_until("all events to be in flight", SOON, || {
        metric(fixture.relay(), "postrider_in_flight_events") == Some(f64::from(ROWS - 1))
    });
    kafka.resume();
    let mut read = CheckedRead::new(&fixture, expected(&topic, ROWS));
    read.until_complete(DRAIN_WITHIN);
    assert_memory_bounded(&mut fixture);
    read.verdict_at_the_end(&mut fixture, &[topic]).assert_at_least_once(None);
}

/// Rows `first..=last` in one transaction, each with its number as idempotency key.
#[track_caller]
fn insert(fixture: &Fixture, topic: &str, first: u32, last: u32) {
    insert_sized(fixture, topic, first, last, 100);
}

#[track_caller]
fn insert_sized(fixture: &Fixture, topic: &str, first: u32, last: u32, payload_bytes: u32) {
    let sql = format!(
        "insert into outbox (topic, payload, ordering_key, idempotency_key)
         select '{topic}', json_build_object('number', g, 'filler', repeat('x', {payload_bytes})),
                'key-' || g % {KEYS}, g::text
           from generate_series({first}, {last}) g"
    );
    fixture.client().batch_execute(&sql).unwrap();
}

fn expected(topic: &str, rows: u32) -> Expected {
    let mut expected = Expected::default();
    for number in 1..=rows {
        expected.push(topic, &format!("key-{}", number % KEYS), number);
    }
    expected
}

#[track_caller]
fn assert_alive_and_blocked(fixture: &mut Fixture) {
    let relay = fixture.relay();
    assert!(relay.is_running(), "{}", relay.log_tail(20));
    assert_eq!(state(relay), "blocked-on-broker");
    let (status, _) = relay.http_get("/livez").unwrap();
    assert_eq!(status, 200);
    let (status, reason) = relay.http_get("/readyz").unwrap();
    assert_eq!(status, 503);
    assert!(
        reason.contains("blocked-on-broker") && reason.contains("acknowledged nothing"),
        "{reason}"
    );
}

#[track_caller]
fn assert_memory_bounded(fixture: &mut Fixture) {
    let peak = fixture.relay().peak_rss_bytes();
    println!("peak RSS {:.1} MiB", peak as f64 / f64::from(1 << 20));
    assert!(peak <= PEAK_RSS_BYTES_MAX, "the relay took {peak} bytes of memory");
}

fn confirmed(fixture: &Fixture) -> PgLsn {
    let sql = "select confirmed_flush_lsn from pg_replication_slots where slot_name = $1";
    let row = fixture.client().query_one(sql, &[&fixture.slot()]);
    row.expect("no slot").get(0)
}

fn wal_end(fixture: &Fixture) -> PgLsn {
    let sql = "select pg_current_wal_lsn()";
    fixture.client().query_one(sql, &[]).unwrap().get(0)
}
