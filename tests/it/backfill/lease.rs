//! The lease of a snapshot lasts as long as the instance that publishes the rows.

use std::time::Duration;

use postrider::internals::Attempt;
use tokio_postgres::NoTls;

use super::stop::slow_down;
use crate::harness::outbox::{without_slot, write};
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Each takes a second: more than the whole test takes.
const ROWS: i64 = 120;

/// Ends the session that renews the lease if it has renewed it before, and returns whether it did.
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
    slow_down(&mut fixture);
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
        assert_eq!(row.get::<_, &str>(1), attempt, "another attempt has begun");
        row.get(0)
    });
    let log = fixture.relay().log();
    assert!(log.contains("the snapshot's lease could not be renewed"), "{log}");
}

/// This is what a process does that was frozen for longer than its lease.
#[test]
fn an_overtaken_attempt_does_not_drop_its_successors_slot() {
    let fixture = Fixture::new(BINARY, "snapshot_overtaken");
    let slot = fixture.slot();
    let insert = "INSERT INTO postrider.backfill (slot, kind) VALUES ($1, 'snapshot')";
    fixture.client().execute(insert, &[&slot]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = fixture.postgres().url(fixture.database());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let state = async || {
            let sql = "SELECT keeps_slot, EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = slot)
                FROM postrider.backfill";
            let row = client.query_one(sql, &[]).await.unwrap();
            (row.get::<_, bool>(0), row.get::<_, bool>(1))
        };
        let first = Attempt::begin(&client, slot, "first").await.unwrap().unwrap();
        assert!(Attempt::begin(&client, slot, "second").await.unwrap().is_none());
        let silence = "UPDATE postrider.backfill SET held_until = now() - interval '1 second'";
        client.batch_execute(silence).await.unwrap();
        let second = Attempt::begin(&client, slot, "second").await.unwrap().unwrap();
        assert!(second.keep_slot(&client).await.unwrap());
        assert_eq!(first.drop_slot(&client).await.unwrap(), None);
        assert_eq!(state().await, (true, true));
        assert_eq!(second.drop_slot(&client).await.unwrap(), Some(()));
        assert_eq!(state().await, (false, false));
        // There is no such slot.
        assert_eq!(second.drop_slot(&client).await.unwrap(), Some(()));
    });
}
