//! Two Kafka clusters.

use std::sync::OnceLock;

use super::{ACCEPT, BINARY, SOON, insert, stop, stored};
use crate::harness::halt::{last_two_lines, wait_halt};
use crate::harness::instances::start_another;
use crate::harness::metrics::state;
use crate::harness::parked_events::{ParkedEvent, assert_exit_code, insert_all, states};
use testkit::broker::Broker;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::kafka::{CLUSTER_ID, KafkaOptions, KafkaServer};
use testkit::port::free_port;
use testkit::proxy::Proxy;
use testkit::shared;
use testkit::wait::wait_until;

const OTHER_ID: &str = "b3RoZXItY2x1c3Rlci1pLQ";

static OTHER: OnceLock<KafkaServer> = OnceLock::new();

fn options(cluster_id: &'static str) -> KafkaOptions {
    KafkaOptions { cluster_id: Some(cluster_id), ..KafkaOptions::default() }
}

/// Another cluster than the shared one.
fn other() -> &'static KafkaServer {
    OTHER.get_or_init(|| KafkaServer::start(options(OTHER_ID)))
}

fn published(broker: &Broker, topic: &str) -> i64 {
    Consumer::new(broker, &[topic]).end_offsets(topic).iter().sum()
}

/// A slot whose first event is in the shared cluster, and a topic that the other one has too.
fn prepare(name: &str) -> (Fixture, String) {
    let mut fixture = Fixture::new(BINARY, name);
    let topic = fixture.create_topic("orders", 1, &[]);
    other().create_topic(&topic, 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    insert(&fixture, &topic);
    fixture.consumer().read_n(1, SOON);
    (fixture, topic)
}

/// The message names both clusters and the flag that accepts the change.
#[track_caller]
fn assert_refused(id: &str, message: &str) {
    for part in [id, OTHER_ID, ACCEPT] {
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
}

#[track_caller]
fn assert_halts(id: &str, fixture: &mut Fixture) {
    assert_refused(id, &last_two_lines(&wait_halt(fixture)).join("\n"));
}

#[track_caller]
fn wait_blocked(fixture: &mut Fixture) {
    wait_until("the relay to report that it is blocked", SOON, || {
        fixture.relay().http_get("/status").is_ok() && state(fixture.relay()) == "blocked-on-broker"
    });
}

#[test]
fn nothing_is_published_to_another_cluster() {
    let (mut fixture, topic) = prepare("cluster");
    let (right, id) = (fixture.broker().clone(), stored(&fixture, "cluster_id").unwrap());
    stop(&mut fixture);

    // Events in the log, parked events that are due, and dead ones.
    insert(&fixture, &topic);
    let due = ParkedEvent { status: "pending", ..ParkedEvent::keyed(&topic, 1, "due") };
    insert_all(&fixture, &[due, ParkedEvent::keyed(&topic, 2, "dead")]);
    fixture.set("POSTRIDER_BROKERS", &other().brokers());
    fixture.start_relay();
    assert_halts(&id, &mut fixture);
    let output = fixture.run(&["replay", "--all"]);
    assert_exit_code(&output, 3);
    assert_refused(&id, &String::from_utf8_lossy(&output.stderr));
    assert_eq!(states(&fixture), ["1 pending 0", "2 dead 0"]);
    fixture.client().execute("SELECT pg_drop_replication_slot($1)", &[&fixture.slot()]).unwrap();
    let output = fixture.run(&["recover"]);
    assert_exit_code(&output, 3);
    assert_refused(&id, &String::from_utf8_lossy(&output.stderr));
    let begun = "SELECT count(*) FROM postrider.backfill";
    assert_eq!(fixture.client().query_one(begun, &[]).unwrap().get::<_, i64>(0), 0);
    assert_eq!(published(&other().broker(), &topic), 0);

    // With the right cluster everything continues.
    fixture.set("POSTRIDER_BROKERS", right.brokers());
    assert_exit_code(&fixture.run(&["recover"]), 0);
    assert_exit_code(&fixture.run(&["replay", "--all"]), 0);
    fixture.start_relay().wait_ready(SOON);
    wait_until("all to be published", SOON, || states(&fixture)[0].starts_with("1 delivered"));
    stop(&mut fixture);

    // Moving to the other cluster must be accepted, once.
    fixture.set("POSTRIDER_BROKERS", &other().brokers());
    insert(&fixture, &topic);
    fixture.start_relay_with(&[ACCEPT]).wait_ready(SOON);
    wait_until("the event at the other cluster", SOON, || {
        published(&other().broker(), &topic) == 1
    });
    assert_eq!(stored(&fixture, "cluster_id").as_deref(), Some(OTHER_ID));
    stop(&mut fixture);
    fixture.set("POSTRIDER_BROKERS", right.brokers());
    fixture.start_relay();
    assert_halts(&id, &mut fixture);
}

/// It would publish parked events, and the rest after a takeover.
#[test]
fn a_standby_configured_for_another_cluster_halts() {
    let (mut fixture, topic) = prepare("cluster_standby");
    let id = stored(&fixture, "cluster_id").unwrap();
    stop(&mut fixture);
    // The first instance leaves parked events to the second.
    fixture.set("POSTRIDER_UNDELIVERED_LEASE", "1h");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "20m");
    fixture.start_relay().wait_ready(SOON);
    fixture.unset("POSTRIDER_UNDELIVERED_LEASE").unset("POSTRIDER_UNDELIVERED_POLL_INTERVAL");
    fixture.set("POSTRIDER_BROKERS", &other().brokers());
    insert_all(
        &fixture,
        &[ParkedEvent { status: "pending", ..ParkedEvent::keyed(&topic, 1, "due") }],
    );
    let mut second = start_another(&fixture);
    let status = second.wait_exit(SOON);
    assert_eq!(status.code(), Some(3), "{}", second.log());
    assert_refused(&id, &last_two_lines(&second.log()).join("\n"));
    assert_eq!(published(&other().broker(), &topic), 0);
    assert!(fixture.relay().is_running());
}

#[test]
fn brokers_that_start_later_are_compared_before_the_first_record() {
    let (mut fixture, topic) = prepare("cluster_later");
    let (right, id) = (fixture.broker().clone(), stored(&fixture, "cluster_id").unwrap());
    stop(&mut fixture);

    // No broker is running: the relay waits and keeps answering Postgres.
    let proxy = Proxy::to(free_port());
    fixture.set("POSTRIDER_BROKERS", &format!("127.0.0.1:{}", proxy.port()));
    insert(&fixture, &topic);
    fixture.start_relay();
    wait_blocked(&mut fixture);
    assert!(fixture.slot_holder().is_some());
    proxy.set_target(port(&other().brokers()));
    assert_halts(&id, &mut fixture);
    assert_eq!(published(&other().broker(), &topic), 0);

    proxy.set_target(free_port());
    fixture.start_relay();
    wait_blocked(&mut fixture);
    proxy.set_target(port(right.brokers()));
    fixture.relay().wait_ready(SOON);
    wait_until("the event that waited", SOON, || published(&right, &topic) == 2);
}

/// A connected producer learns which brokers there are when it refreshes its topic metadata.
#[test]
fn brokers_that_replace_others_are_detected() {
    let (right, proxy) = KafkaServer::start_behind_proxy(options(CLUSTER_ID));
    let advertised_port = Some(proxy.port());
    let wrong = KafkaServer::start(KafkaOptions { advertised_port, ..options(OTHER_ID) });
    let postgres = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "cluster_moved", &postgres.address(), &right.broker());
    fixture.set("POSTRIDER_BROKERS", &right.brokers_via_proxy());
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_TOPIC_METADATA_REFRESH_INTERVAL_MS", "1000");
    let topic = fixture.create_topic("orders", 1, &[]);
    wrong.create_topic(&topic, 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    insert(&fixture, &topic);
    fixture.consumer().read_n(1, SOON);
    proxy.set_target(wrong.port_behind_proxy());
    proxy.cut();
    insert(&fixture, &topic);
    assert_halts(CLUSTER_ID, &mut fixture);
}

fn port(brokers: &str) -> u16 {
    brokers.rsplit(':').next().unwrap().parse().unwrap()
}
