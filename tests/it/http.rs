//! What operators see: probes, status, metrics, and the log.

mod brokers;
mod log;
mod many_clients;
mod metrics;
mod probes;

use std::time::Duration;

use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// Writes this many events, each in a transaction of its own.
#[track_caller]
fn write_events(fixture: &Fixture, topic: &str, count: usize) {
    let mut client = fixture.client();
    let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '{}')";
    for _ in 0..count {
        client.execute(sql, &[&topic]).unwrap();
    }
}
