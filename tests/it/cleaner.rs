//! The cleaner: it deletes old rows that are certainly done, and no others.

mod inbox;
mod late;
mod model;
mod partitions;
mod real_kafka;
mod rights;
mod rows;
pub(crate) mod slots;
mod soak;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::metrics::{metric, state};
use testkit::fixture::Fixture;
use testkit::wait::{poll_for, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// The age of rows: old, or just written.
const OLD: &str = "2 hours";
const YOUNG: &str = "0 hours";

/// A fixture whose cleaner runs all the time and treats rows older than an hour as old.
#[track_caller]
fn with_fast_cleaner(fixture: Fixture) -> Fixture {
    let mut fixture = fixture;
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1h");
    fixture.set("POSTRIDER_CLEANER_INTERVAL", "100ms");
    fixture.set("POSTRIDER_CLEANER_BATCH", "10");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_LOG", "info,postrider::cleaner=debug");
    fixture
}

/// Writes events of this age in one transaction and returns their ids.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, age: &str, events: i64) -> BTreeSet<i64> {
    let sql = "INSERT INTO public.outbox (topic, payload, created_at)
        SELECT $1, '{}', now() - $2::text::interval FROM generate_series(1, $3::bigint) RETURNING id";
    let rows = fixture.client().query(sql, &[&topic, &age, &events]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// The ids in the outbox.
#[track_caller]
fn ids(fixture: &Fixture) -> BTreeSet<i64> {
    let rows = fixture.client().query("SELECT id FROM public.outbox", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Waits until these are deleted. Writes events meanwhile: without any, the stored position
/// advances only every ten seconds.
#[track_caller]
fn wait_deleted(fixture: &mut Fixture, topic: &str, gone: &BTreeSet<i64>) {
    let reached = poll_for(SOON, || {
        write(fixture, topic, YOUNG, 1);
        ids(fixture).is_disjoint(gone).then_some(())
    });
    let state = reached.is_none().then(|| state(fixture.relay()));
    assert!(reached.is_some(), "rows still exist, {state:?}\n{}", fixture.relay().log_tail(30));
}

/// Waits for two rounds of the cleaner: rows that it may delete would be deleted by now.
#[track_caller]
fn wait_rounds(fixture: &mut Fixture, topic: &str) {
    let probe = write(fixture, topic, OLD, 1);
    wait_deleted(fixture, topic, &probe);
}

fn cleaned(fixture: &mut Fixture) -> f64 {
    metric(fixture.relay(), "outbox_cleaned_total{table=\"public.outbox\"}").unwrap_or(0.0)
}

/// Waits until the slot has confirmed everything written so far.
#[track_caller]
fn wait_confirmed(fixture: &Fixture) {
    let mut client = fixture.client();
    let now: String = client.query_one("SELECT pg_current_wal_lsn()::text", &[]).unwrap().get(0);
    let sql = "SELECT position >= $2::text::pg_lsn FROM postrider.progress WHERE slot = $1";
    wait_until("the position to pass the last write", SOON, || {
        client.query_one(sql, &[&fixture.slot(), &now]).unwrap().get(0)
    });
}

/// A clean stop.
#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    assert!(status.success(), "{}", fixture.relay().log());
}
