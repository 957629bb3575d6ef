//! Postgres stops while the broker is unreachable: it must not wait for a relay that can't make
//! progress.

use std::time::Duration;

use super::take_broker;
use crate::harness::load::Pace;
use crate::harness::metrics::metric;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON};
use testkit::postgres::{PostgresOptions, PostgresServer, StopMode};
use testkit::wait::wait_until;

/// The requirement: an administrator's `pg_ctl stop -m fast` gives up after a minute, and a rolling
/// restart of a cluster long before.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Half of what may be in flight: with less the relay keeps reading.
const HALF_FULL: f64 = 750.0;

#[test]
fn a_fast_stop_succeeds_while_the_broker_is_down() {
    let mut broker = take_broker();
    let mut server = PostgresServer::start(PostgresOptions::default());
    let prepared = broker.prepare("stop_blocked", &server.address());
    let mut rig = prepared.start(Pace::Steady);
    broker.kafka().stop();
    wait_blocked(&mut rig);
    server.stop(StopMode::Fast, STOP_WITHIN);
    assert!(rig.fixture.relay().is_running());

    // Also before the relay knows which cluster it would send to: then it holds one event.
    server.start_again();
    rig.load.wait_for_more(100);
    wait_blocked(&mut rig);
    server.stop(StopMode::Fast, STOP_WITHIN);
    assert!(rig.fixture.relay().is_running());

    // And with as much in flight as the relay can hold: then it does not read.
    server.start_again();
    broker.kafka().start_again();
    rig.fixture.relay().wait_ready(SOON);
    broker.kafka().stop();
    // Two queries with rows in between: the relay has stopped reading.
    let mut before = None;
    wait_until("as much in flight as allowed", SOON, || {
        rig.load.wait_for_more(1_000);
        let now = metric(rig.fixture.relay(), "postrider_in_flight_events");
        let stands = now.is_some_and(|events| events >= HALF_FULL) && before == now;
        before = now;
        stands
    });
    server.stop(StopMode::Fast, STOP_WITHIN);
    assert!(rig.fixture.relay().is_running());

    server.start_again();
    broker.kafka().start_again();
    rig.load.wait_for_more(1_000);
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(3 * REPEATED_BY_RESTART_MAX);
}

#[track_caller]
fn wait_blocked(rig: &mut Rig) {
    let relay = rig.fixture.relay();
    wait_until("events that wait for a broker", SOON, || {
        let answer = relay.http_get("/readyz");
        answer.is_ok_and(|(_, body)| body.contains("blocked-on-broker"))
    });
}
