//! Commands that change the database run one after the other, and foreign sessions can't block
//! them.

use postgres::Client;

use super::print::psql;
use super::{BINARY, SOON, assert_refuses, empty, stdout};
use crate::harness::parked_events::assert_exit_code;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

/// Advisory locks have no permissions: every role that can connect can take this one. It is held as
/// long as the connection.
#[track_caller]
fn take_lock(fixture: &Fixture) -> Client {
    let mut foreign = fixture.client();
    foreign.batch_execute("SELECT pg_advisory_lock(x'706f737472696465'::bigint)").unwrap();
    foreign
}

#[test]
fn a_foreign_session_with_the_advisory_lock_stops_no_command() {
    let mut fixture = Fixture::new(BINARY, "turns_stranger");
    fixture.start_relay().wait_ready(SOON);
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    let _stranger = take_lock(&fixture);
    assert_exit_code(&fixture.run(&["migrate"]), 0);
    assert_exit_code(&psql(&fixture, &stdout(&fixture.run(&["migrate", "--print"]))), 0);
    wait_until("the slot to be free", SOON, || fixture.slot_holder().is_none());
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    assert_exit_code(&fixture.run(&["recover"]), 0);
    assert_exit_code(&fixture.run(&["teardown", "--yes"]), 0);
}

#[test]
fn before_the_schema_exists_the_holder_of_the_lock_is_named() {
    let fixture = empty("turns_held");
    let mut foreign = take_lock(&fixture);
    let sql = "SELECT format('is held by PID %s (user %s)', pg_backend_pid(), current_user)";
    let who: String = foreign.query_one(sql, &[]).unwrap().get(0);
    assert_refuses(&fixture, 1, &who, "pg_terminate_backend(PID)");
    drop(foreign);
    fixture.migrate();
}
