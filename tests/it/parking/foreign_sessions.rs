//! What any role that can log in could try.

use postgres::Client;

use super::{BINARY, SOON, assert_parks_and_continues, wait_statuses, with_fast_poller, write};
use crate::harness::outbox::without_slot;
use testkit::fixture::Fixture;

/// Advisory locks have no permissions: every role that can connect can take them all. These are the
/// locks that earlier versions used. They are held as long as the connection.
#[track_caller]
fn take_locks(fixture: &Fixture) -> Client {
    let mut foreign = fixture.client();
    for class in [0x7072_756e_i32, 0x7269_6472] {
        let sql = "SELECT pg_advisory_lock($1, hashtext($2))";
        foreign.execute(sql, &[&class, &fixture.slot()]).unwrap();
    }
    foreign
}

#[test]
fn a_foreign_session_with_advisory_locks_stops_no_relay() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "stranger"));
    let topic = fixture.create_topic("events", 1, &[]);
    let _stranger = take_locks(&fixture);
    fixture.start_relay().wait_ready(SOON);
    assert_parks_and_continues(&fixture, &topic);
    let discarded = fixture.run(&["dead", "discard", "--all", "--yes"]);
    assert!(discarded.status.success(), "{}", String::from_utf8_lossy(&discarded.stderr));
    wait_statuses(&fixture, &[("delivered", 1), ("discarded", 1)]);
}

#[test]
fn a_foreign_session_with_advisory_locks_does_not_keep_rows_from_being_published() {
    let mut fixture = without_slot("stranger_rows");
    let topic = fixture.create_topic("events", 1, &[]);
    let id = write(&fixture, &topic, None, "{}");
    let _stranger = take_locks(&fixture);
    fixture.start_relay();
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
    fixture.relay().wait_ready(SOON);
}

/// Another instance holds the lease, whether it returns or not.
#[test]
fn rows_are_published_by_one_holder_until_its_lease_has_expired() {
    let mut fixture = without_slot("leased_rows");
    let topic = fixture.create_topic("events", 1, &[]);
    let id = write(&fixture, &topic, None, "{}");
    let sql = "INSERT INTO postrider.backfill (slot, kind, holder, held_until)
        VALUES ($1, 'snapshot', 'another', now() + interval '4 seconds')";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    fixture.start_relay();
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
    fixture.relay().wait_ready(SOON);
    let log = fixture.relay().log();
    assert!(log.contains("another instance publishes the rows of the tables"), "{log}");
}
