//! Schemas that are looked up in a registry before events are published.

mod halt;
mod real_kafka;

use std::time::Duration;

use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::registry_stub::RegistryStub;
use testkit::wait::poll_for;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Long enough for a record that was sent to be read.
const QUIET: Duration = Duration::from_secs(2);
const GUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";
/// Events of this topic need no registry.
const PLAIN: &str = "plain";
const PLAIN_ID: u32 = 9;

/// A registry, and a fixture that uses it and retries parked events often.
#[track_caller]
fn with_registry(name: &str) -> (RegistryStub, Fixture) {
    let stub = RegistryStub::start();
    let mut fixture = Fixture::new(BINARY, name);
    configure(&mut fixture, &stub);
    (stub, fixture)
}

fn configure(fixture: &mut Fixture, stub: &RegistryStub) {
    let plain = format!("{}={PLAIN_ID}", fixture.topic(PLAIN));
    fixture.set("POSTRIDER_FORMAT_REGISTRY", &stub.url());
    fixture.set("POSTRIDER_FORMAT_SCHEMA_IDS", &plain);
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_BASE", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "1s");
}

/// Writes an event in its own transaction and returns its id.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, key: Option<&str>, payload: &str) -> String {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        VALUES ($1, $2, $3::text::json) RETURNING id::text";
    fixture.client().query_one(sql, &[&topic, &key, &payload]).unwrap().get(0)
}

/// The subject of a topic's values.
fn subject(topic: &str) -> String {
    format!("{topic}-value")
}

/// A value as consumers of a schema registry expect it.
fn framed(id: u32, payload: &str) -> Option<Vec<u8>> {
    Some([&[0], id.to_be_bytes().as_slice(), payload.as_bytes()].concat())
}

fn values(records: &[Received]) -> Vec<Option<Vec<u8>>> {
    records.iter().map(|record| record.value.clone()).collect()
}

/// Waits until the relay is not ready for this reason.
#[track_caller]
fn wait_blocked(fixture: &mut Fixture, why: &[&str]) {
    let mut last = (0, String::new());
    let found = poll_for(SOON, || {
        last = fixture.relay().http_get("/readyz").unwrap_or_default();
        let (status, body) = &last;
        let is_so = *status == 503 && why.iter().all(|part| body.contains(part));
        is_so.then_some(())
    });
    assert!(found.is_some(), "{why:?} is not in {last:?}\n{}", fixture.relay().log_tail(20));
}

/// Reason, error, status and attempts of the only row in the side table with this id.
#[track_caller]
fn parked(fixture: &Fixture, id: &str) -> Option<(String, String, String, i32)> {
    let sql = "SELECT reason, last_error, status, attempts FROM postrider.undelivered
        WHERE row_id = $1";
    let row = fixture.client().query_opt(sql, &[&id]).unwrap()?;
    Some((row.get(0), row.get::<_, Option<String>>(1).unwrap_or_default(), row.get(2), row.get(3)))
}

#[track_caller]
fn wait_parked(fixture: &Fixture, id: &str, status: &str) -> (String, String, i32) {
    let mut last = None;
    let found = poll_for(SOON, || {
        last = parked(fixture, id);
        let (reason, error, is, attempts) = last.clone()?;
        (is == status).then_some((reason, error, attempts))
    });
    found.unwrap_or_else(|| panic!("event {id} is not {status}, but {last:?}"))
}
