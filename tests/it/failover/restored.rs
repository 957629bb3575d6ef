//! Restores a backup to a moment before a mistake.

use super::writers::Writers;
use super::{BINARY, SOON, assert_nothing_missing, judge, recover, rows, stop, wait_promoted};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::outbox::write;
use crate::harness::rig::wait_caught_up;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

const RESTORE_POINT: &str = "before the mistake";

/// Everything up to the restore point is in the archive.
#[track_caller]
fn archive(server: &PostgresServer) {
    let mut admin = server.client("postgres");
    let sql = "SELECT pg_walfile_name(pg_create_restore_point($1)), pg_switch_wal()::text";
    let file: String = admin.query_one(sql, &[&RESTORE_POINT]).unwrap().get(0);
    wait_until("the log to be archived", SOON, || server.archive().join(&file).exists());
}

#[test]
fn everything_in_the_restored_database_is_published() {
    let server = PostgresServer::start(PostgresOptions::default().archiving());
    let mut fixture = Fixture::on(BINARY, "restored", &server.address(), &shared::broker());
    let topic = fixture.create_topic("events", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let writers = Writers::start(&fixture, &topic);
    writers.wait_for_more(1_000);
    let backup = server.copy(free_port());
    writers.wait_for_more(1_000);
    writers.finish();
    wait_caught_up(&mut fixture);
    stop(&mut fixture);
    // These are not yet published when the mistake happens; those after it are.
    write(&fixture, &topic, 300, 10);
    let kept = rows(&fixture);
    archive(&server);
    write(&fixture, &topic, 200, 10);
    fixture.start_relay().wait_ready(SOON);
    wait_caught_up(&mut fixture);
    stop(&mut fixture);

    let restored = backup.restored_to(RESTORE_POINT, &server.archive()).start();
    wait_promoted(&restored);
    fixture.move_to(&restored.address());
    assert_eq!(rows(&fixture), kept);
    assert_halts_at_start(&mut fixture, "is gone", "postrider recover");
    recover(&fixture);
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 100, 10);
    let verdict = judge(&mut fixture, "restored");
    assert_nothing_missing(&verdict);
    assert_eq!(verdict.unexpected.count, 200, "of rows after the restore point: {verdict}");
}
