//! Events without a table: written by postrider.emit, published as rows are.

mod content;
mod grants;
mod ignored;
mod malformed;
mod order;
mod real_kafka;
mod record;
mod refused;
mod start;

use std::time::Duration;

use crate::support::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A fixture whose relay publishes messages, and whose poller does not keep a test waiting.
#[track_caller]
fn fixture(name: &str) -> Fixture {
    let mut fixture = Fixture::new(BINARY, name);
    fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "1s");
    fixture
}

/// Emits an event in a transaction of its own and returns its id.
#[track_caller]
fn emit(fixture: &Fixture, topic: &str, key: Option<&str>) -> String {
    let sql = "SELECT postrider.emit($1, '{}', ordering_key => $2)";
    fixture.client().query_one(sql, &[&topic, &key]).unwrap().get(0)
}
