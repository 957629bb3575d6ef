//! Faults of the servers while the relay is inside a transaction.

use std::time::Duration;

use super::writer::Kind;
use super::{BINARY, REPEATED_BY_KILL_MAX, REPEATED_BY_STOP_MAX, Rig};
use testkit::fixture::Fixture;
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::shared;

const SOON: Duration = Duration::from_secs(60);

/// Postgres restarts twice in the middle: the relay continues automatically.
#[test]
fn postgres_is_restarted() {
    let mut postgres = PostgresServer::start(PostgresOptions::default());
    let fixture = Fixture::on(BINARY, "inside_restart", &postgres.address(), &shared::broker());
    let mut rig = Rig::of(fixture, "inside_restart", Kind::Copy, 60_000);
    rig.fixture.start_relay();
    let stops = [StopMode::Fast, StopMode::Immediate];
    for (number, mode) in (1..).zip(stops) {
        rig.wait_published(5_000 * number);
        postgres.stop(mode, SOON);
        postgres.start_again();
        rig.assert_inside();
    }
    rig.judge(stops.len() * REPEATED_BY_KILL_MAX);
}

/// The broker stops in the middle, and the relay is stopped before it returns: unacknowledged
/// events are not skipped.
#[test]
fn the_broker_is_unreachable_at_the_stop() {
    let mut kafka = KafkaServer::start(KafkaOptions::default());
    let address = shared::postgres().address();
    let fixture = Fixture::on(BINARY, "inside_broker", &address, &kafka.broker());
    let mut rig = Rig::of(fixture, "inside_broker", Kind::Inserts, 60_000);
    rig.fixture.set("POSTRIDER_RELAY_SHUTDOWN_TIMEOUT", "2s");
    rig.publish_some(5_000);
    kafka.kill9();
    rig.stop();
    rig.assert_inside();
    kafka.start_again();
    rig.publish_some(3_000);
    rig.stop();
    rig.assert_inside();
    rig.start_fast();
    // Events that the broker had written and could not acknowledge are repeated.
    rig.judge(REPEATED_BY_KILL_MAX + REPEATED_BY_STOP_MAX);
}
