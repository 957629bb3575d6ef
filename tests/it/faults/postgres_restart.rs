//! Postgres is restarted in every way, while the broker keeps running.

use std::time::Duration;

use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON, prepare_on};
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::shared;
use testkit::wait::wait_until;

const ROUNDS: usize = 3;

#[track_caller]
fn start(name: &str) -> (PostgresServer, Rig) {
    let server = PostgresServer::start(PostgresOptions::default());
    let rig = prepare_on(name, &server.address(), &shared::broker()).start(Pace::Hard);
    (server, rig)
}

/// Waits until the server has written a newer position of the slot to its disk.
///
/// It does so when the slot's restart position moves, which takes a record of running transactions,
/// such as a checkpoint writes. A confirmed position alone stays in memory, and before Postgres 17
/// even a clean stop forgets it.
#[track_caller]
fn wait_written_down(rig: &Rig) {
    let mut client = rig.fixture.client();
    let sql = "select restart_lsn::text from pg_replication_slots where slot_name = $1";
    let slot = rig.fixture.slot();
    let mut position = || client.query_one(sql, &[&slot]).unwrap().get::<_, String>(0);
    let before = position();
    let mut checkpointer = rig.fixture.client();
    wait_until("the slot's position to be on disk", SOON, || {
        checkpointer.batch_execute("checkpoint").unwrap();
        position() != before
    });
}

/// Starts the server again and waits until the relay and the writers use it.
#[track_caller]
fn restart_and_wait(server: &mut PostgresServer, rig: &mut Rig) {
    server.start_again();
    rig.load.wait_for_more(1_000);
    rig.fixture.relay().wait_ready(SOON);
}

/// The server repeats everything since it last wrote the slot's position to its disk.
#[track_caller]
fn restarted(name: &str, stop: impl Fn(&mut PostgresServer)) {
    let (mut server, mut rig) = start(name);
    let mut repeated_max = 0;
    for _ in 0..ROUNDS {
        let written_down = rig.load.committed();
        rig.wait_caught_up();
        wait_written_down(&rig);
        rig.load.wait_for_more(2_000);
        stop(&mut server);
        repeated_max += rig.load.committed() - written_down + REPEATED_BY_RESTART_MAX;
        restart_and_wait(&mut server, &mut rig);
    }
    rig.judge(repeated_max);
}

#[test]
fn postgres_is_stopped_fast() {
    restarted("pg_fast", |server| {
        // The broker acknowledges what is in flight, so the server waits for nothing.
        server.stop(StopMode::Fast, Duration::from_secs(10));
    });
}

#[test]
fn postgres_is_stopped_immediately() {
    restarted("pg_immediate", |server| {
        server.stop(StopMode::Immediate, Duration::from_secs(10));
    });
}

#[test]
fn postgres_is_killed() {
    restarted("pg_killed", PostgresServer::kill9);
}
