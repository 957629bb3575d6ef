//! The destination of a slot's events is stored, and another one is refused before anything is
//! sent.

mod real_kafka;

use std::time::Duration;

use crate::harness::halt::{assert_halts_at_start, last_two_lines, wait_halt};
use crate::harness::parked_events::{ParkedEvent, assert_exit_code, insert_all, states};
use testkit::fixture::Fixture;
use testkit::mock::MockBroker;
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const ENVIRONMENT: &str = "POSTRIDER_RELAY_ENVIRONMENT";
const ACCEPT: &str = "--accept-destination";

/// A stored value of the fixture's slot.
#[track_caller]
fn stored(fixture: &Fixture, column: &str) -> Option<String> {
    let sql = format!("SELECT {column} FROM postrider.progress WHERE slot = $1");
    fixture.client().query_one(&sql, &[&fixture.slot()]).unwrap().get(0)
}

fn insert(fixture: &Fixture, topic: &str) {
    let sql = "INSERT INTO outbox (topic, ordering_key, payload) VALUES ($1, 'k', '{}')";
    fixture.client().execute(sql, &[&topic]).unwrap();
}

#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    assert!(status.success(), "{}", fixture.relay().log());
}

/// Configures the name of the environment, or none.
fn set_environment(fixture: &mut Fixture, environment: Option<&str>) {
    match environment {
        Some(name) => fixture.set(ENVIRONMENT, name),
        None => fixture.unset(ENVIRONMENT),
    };
}

#[test]
fn a_copy_in_another_environment_publishes_nothing() {
    let mut fixture = Fixture::new(BINARY, "environment");
    let topic = fixture.create_topic("orders", 1, &[]);
    // Without a name nothing is compared, and it can be set later.
    fixture.start_relay().wait_ready(SOON);
    stop(&mut fixture);
    assert_eq!(stored(&fixture, "environment"), None);
    set_environment(&mut fixture, Some("production"));
    fixture.start_relay().wait_ready(SOON);
    stop(&mut fixture);
    assert_eq!(stored(&fixture, "environment").as_deref(), Some("production"));

    insert(&fixture, &topic);
    insert_all(&fixture, &[ParkedEvent::keyed(&topic, 1, "k")]);
    for (other, message) in [(Some("staging"), "\"staging\""), (None, "not set")] {
        set_environment(&mut fixture, other);
        let log = assert_halts_at_start(&mut fixture, message, ACCEPT);
        let [what, fix] = last_two_lines(&log);
        assert!(what.contains("environment \"production\""), "{what}");
        assert!(fix.contains("set relay.environment to \"production\""), "{fix}");
        let output = fixture.run(&["replay", "--all"]);
        assert_exit_code(&output, 3);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("production") && errors.contains(ACCEPT), "{errors}");
    }
    assert_eq!(states(&fixture), ["1 dead 0"]);
    assert_eq!(fixture.consumer().end_offsets(&topic), [0]);

    // Losing the slot does not bypass the check, and changes nothing.
    set_environment(&mut fixture, Some("staging"));
    let sql = "SELECT pg_drop_replication_slot($1)";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    let output = fixture.run(&["recover"]);
    assert_exit_code(&output, 3);
    let begun = "SELECT count(*) FROM postrider.backfill";
    assert_eq!(fixture.client().query_one(begun, &[]).unwrap().get::<_, i64>(0), 0);
    assert_eq!(fixture.consumer().end_offsets(&topic), [0]);

    // An operator can accept the change, once.
    assert_exit_code(&fixture.run(&["recover", ACCEPT]), 0);
    assert_eq!(stored(&fixture, "environment").as_deref(), Some("staging"));
    assert_exit_code(&fixture.run(&["replay", "--all"]), 0);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(2, SOON);
    stop(&mut fixture);
    set_environment(&mut fixture, Some("production"));
    fixture.start_relay_with(&[ACCEPT]).wait_ready(SOON);
    assert_eq!(stored(&fixture, "environment").as_deref(), Some("production"));
}

#[test]
fn the_embedded_broker_can_differ_at_every_start() {
    let postgres = shared::postgres();
    let (one, two) = (MockBroker::start(1), MockBroker::start(1));
    let mut fixture = Fixture::on(BINARY, "embedded", &postgres.address(), &one.broker());
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    insert(&fixture, &topic);
    fixture.consumer().read_n(1, SOON);
    stop(&mut fixture);
    two.create_topic(&topic, 1);
    fixture.set("POSTRIDER_BROKERS", &two.brokers());
    fixture.start_relay().wait_ready(SOON);
    insert(&fixture, &topic);
    wait_until("the event at the second broker", SOON, || {
        testkit::consumer::Consumer::new(&two.broker(), &[&topic]).end_offsets(&topic) == [1]
    });
    stop(&mut fixture);
    assert_eq!(stored(&fixture, "cluster_id"), None);

    // It does not replace a real cluster.
    let sql = "UPDATE postrider.progress SET cluster_id = 'cG9zdHJpZGVyLWtyYWZ0LQ'";
    fixture.client().execute(sql, &[]).unwrap();
    insert(&fixture, &topic);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    let [what, _] = last_two_lines(&log);
    assert!(what.contains("mockCluster") && what.contains("cG9zdHJpZGVyLWtyYWZ0LQ"), "{what}");
    // Using it once does not lose the real one.
    fixture.start_relay_with(&["--accept-destination"]).wait_ready(SOON);
    wait_until("the event at the second broker", SOON, || {
        testkit::consumer::Consumer::new(&two.broker(), &[&topic]).end_offsets(&topic) == [2]
    });
    stop(&mut fixture);
    assert_eq!(stored(&fixture, "cluster_id").as_deref(), Some("cG9zdHJpZGVyLWtyYWZ0LQ"));
}
