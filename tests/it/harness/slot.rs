//! The position of a fixture's slot.

use std::time::Duration;

use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(60);

/// The confirmed position of the fixture's slot; `None` without a logical slot.
#[track_caller]
pub fn confirmed_lsn(fixture: &Fixture) -> Option<String> {
    let sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
    let mut client = fixture.postgres().client("postgres");
    let row = client.query_opt(sql, &[&fixture.slot()]).unwrap();
    row.and_then(|row| row.get(0))
}

/// Waits until the slot has confirmed everything written so far.
#[track_caller]
pub fn wait_confirmed(fixture: &Fixture) {
    let mut client = fixture.client();
    let now: String = client.query_one("SELECT pg_current_wal_lsn()::text", &[]).unwrap().get(0);
    let sql = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    wait_until("the position to pass the last write", SOON, || {
        client.query_one(sql, &[&fixture.slot(), &now]).unwrap().get(0)
    });
}
