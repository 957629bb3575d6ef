//! An idle outbox must not hold the WAL of its busy neighbours.

use std::time::Duration;

use crate::metric::metric_sum;
use crate::support::fixture::Fixture;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::shared;
use crate::support::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);
const BUSY_BYTES: u64 = 100 << 20;
const UNCONFIRMED_BYTES_MAX: u64 = 16 << 20;
const CONFIRM_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_busy_table_beside_it() {
    // Not the shared server: what other tests write would be waited for too.
    let postgres = PostgresServer::start(PostgresOptions::default());
    let mut fixture = idle_outbox(&postgres);
    let database = fixture.database().to_owned();
    assert_keeps_up(&mut fixture, &database);
}

#[test]
fn a_busy_database_beside_it() {
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
    let begin = wal_bytes(&mut busy);
    while wal_bytes(&mut busy) - begin < BUSY_BYTES {
        busy.batch_execute(
            "insert into busy select n, repeat('x', 500) from generate_series(1, 20000) n",
        )
        .unwrap();
    }
    wait_until("the idle outbox to let go of the WAL", CONFIRM_WITHIN, || {
        fixture.unconfirmed_bytes().expect("no slot") < UNCONFIRMED_BYTES_MAX
    });
    assert_eq!(metric_sum(fixture.relay(), "outbox_published_total"), 0.0);
    let topic = fixture.topic("orders");
    assert_eq!(fixture.consumer().end_offsets(&topic), [0, 0, 0]);
}

fn wal_bytes(client: &mut postgres::Client) -> u64 {
    let sql = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    let bytes: i64 = client.query_one(sql, &[]).unwrap().get(0);
    u64::try_from(bytes).unwrap()
}
