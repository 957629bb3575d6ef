//! A relay without a broker is not ready, even while there is nothing to publish.

use std::time::Duration;

use super::{BINARY, SOON, write_events};
use crate::harness::instances::{start_another_with, start_second};
use crate::harness::metrics::{metric, state};
use crate::harness::outbox::without_slot;
use testkit::fixture::Fixture;
use testkit::mock::MockBroker;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::wait_until;

const UNREACHABLE: &str = "this instance could not publish: no broker could be reached for ";

/// Waits until a standby reports that it reaches no broker.
#[track_caller]
fn wait_standby_not_ready(relay: &Relay) {
    wait_until("the standby not to be ready", SOON, || {
        let (status, body) = relay.http_get("/readyz").unwrap_or_default();
        status == 503 && body.starts_with("standby: ") && body.contains(UNREACHABLE)
    });
    assert_eq!(metric(relay, "postrider_active"), Some(0.0));
}

#[track_caller]
fn wait_unreachable(relay: &Relay) {
    wait_until("the relay not to be ready", SOON, || {
        let (status, body) = relay.http_get("/readyz").unwrap();
        let about_brokers = body.starts_with("blocked-on-broker: no broker could be reached for ");
        assert!(status == 200 || about_brokers, "{status} {body}");
        status == 503
    });
}

#[test]
fn readiness_follows_brokers_that_stop_and_return() {
    let mock = MockBroker::start(1);
    let server = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "reach", &server.address(), &mock.broker());
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    mock.with(|cluster| cluster.broker_down(1)).unwrap();
    wait_unreachable(fixture.relay());
    mock.with(|cluster| cluster.broker_up(1)).unwrap();
    fixture.relay().wait_ready(SOON);
    // A broker that does not respond: the connection stays open.
    mock.with(|cluster| cluster.broker_round_trip_time(1, Duration::from_secs(120))).unwrap();
    wait_unreachable(fixture.relay());
    mock.with(|cluster| cluster.broker_round_trip_time(1, Duration::ZERO)).unwrap();
    fixture.relay().wait_ready(SOON);
    write_events(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
    let restarts = crate::harness::metrics::metric_sum(fixture.relay(), "postrider_restarts_total");
    assert_eq!(restarts, 0.0, "{}", fixture.relay().log());
}

#[test]
fn readiness_follows_brokers_while_a_snapshot_waits_for_transactions() {
    let mock = MockBroker::start(1);
    // A server of its own: no other test must wait for the transaction.
    let server = PostgresServer::start(PostgresOptions::default());
    let mut fixture =
        Fixture::unmigrated(BINARY, "reach_snapshot", &server.address(), &mock.broker());
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = fixture.create_topic("t", 1, &[]);
    write_events(&fixture, &topic, 3);
    let mut open = fixture.client();
    open.batch_execute("BEGIN; SELECT pg_current_xact_id()").unwrap();
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(state(fixture.relay()), "snapshotting");
    mock.with(|cluster| cluster.broker_down(1)).unwrap();
    wait_unreachable(fixture.relay());
    mock.with(|cluster| cluster.broker_up(1)).unwrap();
    fixture.relay().wait_ready(SOON);
    assert_eq!(state(fixture.relay()), "snapshotting");
    open.batch_execute("COMMIT").unwrap();
    fixture.consumer().read_n(3, SOON);
    let restarts = crate::harness::metrics::metric_sum(fixture.relay(), "postrider_restarts_total");
    assert_eq!(restarts, 0.0, "{}", fixture.relay().log());
}

#[test]
fn a_relay_whose_brokers_never_started_is_not_ready() {
    let mut fixture = Fixture::new(BINARY, "no_brokers");
    fixture.set("POSTRIDER_BROKERS", "127.0.0.1:9");
    fixture.start_relay();
    let relay = fixture.relay();
    wait_until("the relay to listen", SOON, || relay.http_get("/livez").is_ok());
    wait_until("the relay not to be ready", SOON, || {
        let (status, body) = relay.http_get("/readyz").unwrap();
        status == 503 && body.contains("no broker could be reached for ")
    });
}

#[test]
fn a_standby_whose_own_brokers_are_unreachable_is_not_ready() {
    let mut fixture = Fixture::new(BINARY, "standby_brokers");
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let second = start_second(&fixture);
    let in_vain = start_another_with(&fixture, &[("POSTRIDER_BROKERS", "127.0.0.1:9")]);
    wait_standby_not_ready(&in_vain);
    assert_eq!(second.http_get("/readyz").unwrap().0, 200);
    let log = in_vain.log();
    let is_unreachable = |line: &&str| line.contains("standing by") && line.contains(UNREACHABLE);
    assert_eq!(log.lines().filter(is_unreachable).count(), 1, "{log}");
    write_events(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
}

#[test]
fn the_readiness_of_a_standby_follows_its_brokers() {
    let mock = MockBroker::start(1);
    let server = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "standby_reach", &server.address(), &mock.broker());
    fixture.start_relay().wait_ready(SOON);
    let second = start_second(&fixture);
    mock.with(|cluster| cluster.broker_down(1)).unwrap();
    wait_standby_not_ready(&second);
    mock.with(|cluster| cluster.broker_up(1)).unwrap();
    wait_until("the standby to be ready", SOON, || {
        second.http_get("/readyz").is_ok_and(|(status, _)| status == 200)
    });
    assert_eq!(state(&second), "standby");
}

#[test]
fn a_standby_without_brokers_is_not_ready_while_another_instance_publishes_table_rows() {
    let mut fixture = without_slot("standby_rows");
    let sql = "INSERT INTO postrider.backfill (slot, kind, holder, held_until)
        VALUES ($1, 'snapshot', 'another', now() + interval '1 hour')";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    fixture.set("POSTRIDER_BROKERS", "127.0.0.1:9");
    fixture.start_relay();
    wait_standby_not_ready(fixture.relay());
}
