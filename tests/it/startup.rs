//! What the relay needs to start, what it reports if something is missing, and what it waits for.

pub(crate) mod catalog;
mod login;
mod network;
pub mod secrets;
mod usage;

use std::time::Duration;

use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// Writes one event and returns its id.
#[track_caller]
pub fn write_event(fixture: &Fixture, topic: &str) -> String {
    let sql = "INSERT INTO public.outbox (topic, payload) VALUES ($1, '{}') RETURNING id::text";
    fixture.client().query_one(sql, &[&topic]).unwrap().get(0)
}

/// Publishes an event from end to end with the fixture's configuration.
#[track_caller]
pub fn assert_publishes(fixture: &mut Fixture) {
    assert_publishes_with(fixture, &[]);
}

/// The same with flags.
#[track_caller]
pub fn assert_publishes_with(fixture: &mut Fixture, flags: &[&str]) {
    let topic = fixture.create_topic("works", 1, &[]);
    let id = write_event(fixture, &topic);
    fixture.start_relay_with(flags).wait_ready(SOON);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), id);
}
