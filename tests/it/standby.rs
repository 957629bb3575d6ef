//! Several instances with one slot: one streams, the others wait, ready, and take over.

mod foreign_holders;
mod foreign_sessions;
mod frozen;
mod real_kafka;
mod rounds;
mod takeover;
mod waiting;

use std::time::Duration;

use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// Waits until a standby has watched the slot for this long with one connection.
#[track_caller]
fn wait_watched(fixture: &Fixture, seconds: f64) {
    let sql = "SELECT coalesce(max(extract(epoch FROM query_start - backend_start))::float8, 0)
        FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'postrider standby'";
    let mut client = fixture.client();
    wait_until("the standby to have watched", SOON, || {
        client.query_one(sql, &[]).unwrap().get::<_, f64>(0) >= seconds
    });
}

#[track_caller]
fn write(fixture: &Fixture, topic: &str, count: i64) {
    let sql =
        "INSERT INTO outbox (topic, payload) SELECT $1, '1' FROM generate_series(1, $2::bigint)";
    fixture.client().execute(sql, &[&topic, &count]).unwrap();
}
