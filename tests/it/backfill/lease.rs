//! The lease of a snapshot lasts as long as the instance that publishes the rows.

use std::time::Duration;

use super::stop::be_slow;
use crate::snapshot::{without_slot, write};
use crate::support::fixture::Fixture;
use crate::support::wait::wait_until;

const SOON: Duration = Duration::from_secs(60);
/// A second for each: more than the whole test takes.
const ROWS: i64 = 120;

/// Ends the session that renews the lease, if it has renewed it before; says whether it did.
fn end_renewing(fixture: &Fixture) -> bool {
    let sql = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
        WHERE datname = current_database()
          AND query LIKE 'UPDATE postrider.backfill SET held_until%'";
    fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
}

#[test]
fn a_lease_is_renewed_on_another_connection_when_the_first_one_ends() {
    let mut fixture = without_slot("snapshot_lease");
    let topic = fixture.create_topic("events", 1, &[]);
    write(&fixture, &topic, ROWS, ROWS);
    be_slow(&mut fixture);
    fixture.start_relay();
    fixture.consumer().read_n(1, SOON);
    wait_until("the lease to be renewed", SOON, || end_renewing(&fixture));
    let sql = "SELECT attempt::text, held_until::text FROM postrider.backfill WHERE slot = $1";
    let row = fixture.client().query_one(sql, &[&fixture.slot()]).unwrap();
    let (attempt, held_until): (String, String) = (row.get(0), row.get(1));
    let sql = "SELECT held_until > $2::text::timestamptz + interval '2 seconds', attempt::text
        FROM postrider.backfill WHERE slot = $1";
    let mut client = fixture.client();
    wait_until("the lease to be renewed again", SOON, || {
        let row = client.query_one(sql, &[&fixture.slot(), &held_until]).unwrap();
        assert_eq!(row.get::<_, &str>(1), attempt, "another try has begun");
        row.get(0)
    });
    let log = fixture.relay().log();
    assert!(log.contains("the snapshot's lease could not be renewed"), "{log}");
}
