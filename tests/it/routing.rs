//! Topics, keys, partitions and headers as the configuration wants them.

mod order;
mod parked;
mod presets;
mod start;
mod templates;

use std::time::Duration;

use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A database in which this SQL was run, without migrate.
#[track_caller]
fn prepared(name: &str, sql: &str) -> Fixture {
    let (postgres, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, name, &postgres.address(), &broker);
    fixture.client().batch_execute(sql).unwrap();
    fixture
}

/// Publishes what this SQL writes to these topics, and reads so many records.
#[track_caller]
fn publish(fixture: &mut Fixture, topics: &[&str], sql: &str, count: usize) -> Vec<Received> {
    for topic in topics {
        fixture.broker().create_topic(topic, 1, &[]);
    }
    fixture.migrate();
    fixture.client().batch_execute(sql).unwrap();
    fixture.start_relay().wait_ready(SOON);
    Consumer::new(fixture.broker(), topics).read_n(count, SOON)
}

/// The names and values of a record's headers, in their order; a value is never null here.
fn headers(record: &Received) -> Vec<(&str, &str)> {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let headers = record.headers.iter();
    headers.map(|(name, value)| (name.as_str(), text(value.as_deref().unwrap()))).collect()
}
