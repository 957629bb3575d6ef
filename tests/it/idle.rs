//! An idle outbox must not retain the WAL of busy tables and databases beside it.

use std::time::{Duration, Instant};

use postgres::Client;

use crate::harness::metrics::metric_sum;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);
const BUSY_BYTES: u64 = 100 << 20;
const UNCONFIRMED_BYTES_MAX: u64 = 16 << 20;
/// One insert has about a megabyte, so that the neighbour writes 5 MB a second: with one report a
/// second, 16 MB are reached by a relay that falls three seconds behind.
const INSERT_EVERY: Duration = Duration::from_millis(200);
/// WAL from creating the databases counts until the first reports have arrived.
const GRACE: Duration = Duration::from_secs(3);
/// A small remainder is stored and confirmed every ten seconds.
const CONFIRM_WITHIN: Duration = Duration::from_secs(15);

#[test]
fn an_idle_outbox_lets_go_of_the_wal_of_a_busy_table() {
    // Not the shared server: WAL of other tests would have to be confirmed too.
    let postgres = PostgresServer::start(PostgresOptions::default());
    let mut fixture = idle_outbox(&postgres);
    let database = fixture.database().to_owned();
    assert_keeps_up(&mut fixture, &database);
}

#[test]
fn an_idle_outbox_lets_go_of_the_wal_of_a_busy_database() {
    let postgres = PostgresServer::start(PostgresOptions::default());
    let mut fixture = idle_outbox(&postgres);
    let database = postgres.create_database();
    assert_keeps_up(&mut fixture, &database);
}

fn idle_outbox(postgres: &PostgresServer) -> Fixture {
    let broker = shared::broker();
    let mut fixture = Fixture::on(BINARY, "idle", &postgres.address(), &broker);
    fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    fixture
}

#[track_caller]
fn assert_keeps_up(fixture: &mut Fixture, busy_database: &str) {
    let mut busy = fixture.postgres().client(busy_database);
    busy.batch_execute("create table busy (n bigint, filler text)").unwrap();
    let highest = write_and_watch(&mut busy, fixture);
    assert!(
        highest < UNCONFIRMED_BYTES_MAX,
        "{highest} bytes were unconfirmed while the neighbour wrote"
    );
    // And it becomes quiet: the rest is what Postgres itself writes now and then.
    let end: String = busy.query_one("select pg_current_wal_lsn()::text", &[]).unwrap().get(0);
    let sql = "select confirmed_flush_lsn >= $1::text::pg_lsn
        from pg_replication_slots where slot_name = $2";
    wait_until("the idle outbox to let go of the WAL", CONFIRM_WITHIN, || {
        busy.query_one(sql, &[&end, &fixture.slot()]).unwrap().get(0)
    });
    assert_eq!(metric_sum(fixture.relay(), "outbox_published_total"), 0.0);
    let topic = fixture.topic("orders");
    assert_eq!(fixture.consumer().end_offsets(&topic), [0, 0, 0]);
}

/// Writes the load of the neighbour, and returns the highest number of unconfirmed bytes.
#[track_caller]
fn write_and_watch(busy: &mut Client, fixture: &Fixture) -> u64 {
    let begun = Instant::now();
    let begin = wal_bytes(busy);
    let mut highest = 0;
    while wal_bytes(busy) - begin < BUSY_BYTES {
        let insert_begun = Instant::now();
        busy.batch_execute(
            "insert into busy select n, repeat('x', 500) from generate_series(1, 1800) n",
        )
        .unwrap();
        if begun.elapsed() > GRACE {
            highest = highest.max(fixture.unconfirmed_bytes().expect("no slot"));
        }
        // The pace of the load, not a wait for a condition.
        std::thread::sleep(INSERT_EVERY.saturating_sub(insert_begun.elapsed()));
    }
    let seconds = begun.elapsed().as_secs();
    println!("at most {highest} bytes unconfirmed in {seconds} s");
    highest
}

fn wal_bytes(client: &mut Client) -> u64 {
    let sql = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    let bytes: i64 = client.query_one(sql, &[]).unwrap().get(0);
    u64::try_from(bytes).unwrap()
}
