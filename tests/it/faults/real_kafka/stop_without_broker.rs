//! A stop while the broker is unreachable: it waits for the configured timeout, and loses nothing.

use std::time::Duration;

use super::take_broker;
use crate::harness::load::Pace;
use crate::harness::metrics::metric_sum;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON};
use testkit::proxy::Proxy;
use testkit::shared;
use testkit::wait::wait_until;

/// Waits until the relay knows its topics: before that, an event waits without being in flight.
#[track_caller]
fn wait_publishing(rig: &mut Rig) {
    let relay = rig.fixture.relay();
    wait_until("the first events of this relay", SOON, || {
        metric_sum(relay, "outbox_published_total") > 0.0
    });
}

#[track_caller]
fn wait_blocked(rig: &mut Rig) {
    let relay = rig.fixture.relay();
    wait_until("events in flight without a broker", SOON, || {
        let answer = relay.http_get("/readyz");
        answer.is_ok_and(|(_, body)| body.contains("blocked-on-broker"))
    });
}

#[test]
fn a_stop_waits_for_the_timeout_and_no_longer() {
    let broker = take_broker();
    let prepared = broker.prepare("stop_timeout", &shared::postgres().address());
    let prepared = prepared.set("POSTRIDER_RELAY_SHUTDOWN_TIMEOUT", "2s");
    let mut rig = prepared.start(Pace::Steady);
    // Refused and silent: a client that is being closed may wait in either case.
    for silent in [false, true] {
        wait_publishing(&mut rig);
        if !silent {
            broker.proxy().refuse();
            broker.proxy().cut();
        } else {
            broker.proxy().black_hole()
        }
        wait_blocked(&mut rig);
        let relay = rig.fixture.relay();
        relay.terminate();
        // Two seconds, and the time to close the clients.
        let status = relay.wait_exit(Duration::from_secs(10));
        assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
        let log = relay.log();
        assert!(log.contains("events are still in flight"), "{log}");
        broker.proxy().pass();
        rig.fixture.start_relay().wait_ready(SOON);
        rig.load.wait_for_more(500);
    }
    rig.judge(2 * REPEATED_BY_RESTART_MAX);
}

/// A standby may have the slot before that goodbye has ended.
#[test]
fn a_stop_gives_up_events_in_flight_before_an_unanswered_goodbye() {
    let broker = take_broker();
    let postgres = Proxy::to(shared::postgres().port());
    let prepared = broker.prepare("stop_unheard", &shared::postgres().address());
    let prepared = prepared.postgres_via(postgres.port());
    let prepared = prepared.set("POSTRIDER_RELAY_SHUTDOWN_TIMEOUT", "2s");
    let mut rig = prepared.set("POSTRIDER_LOG", "info,postrider=debug").start(Pace::Steady);
    wait_publishing(&mut rig);
    broker.proxy().black_hole();
    wait_blocked(&mut rig);
    postgres.black_hole();
    let relay = rig.fixture.relay();
    relay.terminate();
    let status = relay.wait_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
    let log = relay.log();
    let stopping = &log[log.find("events are still in flight").unwrap()..];
    let place = |what: &str| stopping.find(what).unwrap_or_else(|| panic!("no {what}:\n{log}"));
    let closed = place("the Kafka producers are closed");
    assert!(closed < place("the server was gone before the stream was closed"), "{log}");
    postgres.pass();
    broker.proxy().pass();
    rig.fixture.start_relay().wait_ready(SOON);
    rig.judge(REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_second_signal_stops_the_relay_at_once() {
    let broker = take_broker();
    let prepared = broker.prepare("stop_twice", &shared::postgres().address());
    let prepared = prepared.set("POSTRIDER_RELAY_SHUTDOWN_TIMEOUT", "1h");
    let mut rig = prepared.start(Pace::Steady);
    wait_publishing(&mut rig);
    broker.proxy().refuse();
    broker.proxy().cut();
    wait_blocked(&mut rig);
    let relay = rig.fixture.relay();
    relay.terminate();
    wait_until("the relay to drain", SOON, || relay.log().contains("draining events in flight"));
    // It must not be ready while it drains.
    rig.load.wait_for_more(3_000);
    let (status, body) = rig.fixture.relay().http_get("/readyz").unwrap();
    assert_eq!((status, body.trim()), (503, "stopping"));
    let relay = rig.fixture.relay();
    relay.interrupt();
    let status = relay.wait_exit(Duration::from_secs(5));
    assert_eq!(status.code(), Some(1), "{}", relay.log_tail(20));
    let log = relay.log();
    assert!(log.contains("will be published again"), "{log}");

    broker.proxy().pass();
    rig.fixture.start_relay().wait_ready(SOON);
    rig.judge(REPEATED_BY_RESTART_MAX);
}
