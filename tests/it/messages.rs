//! Events without a table: written by postrider.emit and emit_batch, published as rows are.

mod batch;
pub(crate) mod content;
mod damaged;
mod flood;
mod grants;
mod ignored;
mod malformed;
pub(crate) mod order;
mod promised;
mod real_kafka;
mod record;
mod recovered;
mod refused;
mod start;

use std::time::Duration;

use postgres::GenericClient;

use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A fixture whose relay publishes messages and whose poller is fast enough for a test.
#[track_caller]
fn fixture(name: &str) -> Fixture {
    let mut fixture = Fixture::new(BINARY, name);
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    fixture.migrate();
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "1s");
    fixture
}

/// Emits events of a key as a batch and returns their ids.
#[track_caller]
pub(crate) fn emit_batch(
    client: &mut impl GenericClient,
    topic: &str,
    key: &str,
    count: usize,
) -> Vec<String> {
    let sql = "SELECT postrider.emit_batch(array_fill($1::text, ARRAY[$3::int]),
        array_fill('{}'::json, ARRAY[$3]), ordering_keys => array_fill($2::text, ARRAY[$3]))";
    let count = i32::try_from(count).unwrap();
    client.query_one(sql, &[&topic, &key, &count]).unwrap().get(0)
}

/// Emits an event in a transaction of its own and returns its id.
#[track_caller]
fn emit(fixture: &Fixture, topic: &str, key: Option<&str>) -> String {
    let sql = "SELECT postrider.emit($1, '{}', ordering_key => $2)";
    fixture.client().query_one(sql, &[&topic, &key]).unwrap().get(0)
}
