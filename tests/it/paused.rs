//! `relay.enabled = false`: the relay reads nothing and reports the effect on the disk.

use std::time::Duration;

use serde_json::Value;

use crate::harness::halt::{assert_halts_at_start, wait_halt};
use crate::harness::metrics::metric;
use crate::harness::slot::confirmed_lsn;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

#[track_caller]
fn pause(fixture: &mut Fixture) {
    fixture.set("POSTRIDER_RELAY_ENABLED", "false");
}

fn status(relay: &Relay) -> Value {
    let body = relay.http_get("/status").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(&body).unwrap_or_default()
}

fn warnings(relay: &Relay) -> Vec<String> {
    let log = relay.log();
    let lines = log.lines().filter(|line| line.contains("WARN") && line.contains("paused"));
    lines.map(str::to_owned).collect()
}

/// Writes WAL that the slot must retain.
#[track_caller]
fn write_wal(fixture: &Fixture) {
    let sql = "INSERT INTO outbox (topic, payload)
        SELECT 't', to_json(repeat(md5(n::text), 300)) FROM generate_series(1, 300) n";
    fixture.client().batch_execute(sql).unwrap();
}

#[test]
fn a_paused_relay_publishes_nothing_and_reports_it() {
    let mut fixture = Fixture::new(BINARY, "paused");
    let topic = fixture.create_topic("events", 1, &[]);
    let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '1')";
    fixture.client().execute(sql, &[&topic]).unwrap();
    let before = confirmed_lsn(&fixture);
    pause(&mut fixture);
    // It does not use the broker, so a missing one must not matter.
    fixture.set("POSTRIDER_BROKERS", &format!("127.0.0.1:{}", free_port()));
    let slot = fixture.slot().to_owned();
    let relay = fixture.start_relay();
    wait_until("the slot to be seen", SOON, || {
        let now = status(relay);
        now["slot_retained_bytes"].as_i64() > Some(0) && now["confirmed_lsn"] != "0/0"
    });
    let now = status(relay);
    assert_eq!((&now["state"], &now["slot"]), (&"paused".into(), &slot.as_str().into()));
    assert_eq!(now["confirmed_lsn"].as_str(), before.as_deref());
    let (code, body) = relay.http_get("/readyz").unwrap();
    assert_eq!(code, 503);
    assert!(body.starts_with("paused: relay.enabled is false"), "{body}");
    assert_eq!(relay.http_get("/livez").unwrap().0, 200);
    assert!(metric(relay, "postrider_slot_retained_bytes") > Some(0.0));
    assert!(metric(relay, "postrider_slot_unconfirmed_bytes") > Some(0.0));
    assert_eq!(metric(relay, "postrider_active"), Some(0.0));
    let first = warnings(relay).first().cloned().expect("no warning at start");
    assert!(first.contains("the slot retains"), "{first}");
    assert!(first.contains("it can fill the disk"), "{first}");
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0), "{}", relay.log());
    assert!(!relay.log().contains("rdkafka"), "{}", relay.log());
    assert_eq!(fixture.slot_holder(), None);
    assert_eq!(confirmed_lsn(&fixture), before, "the position has moved");

    // Events written in the meantime are published when it is enabled again.
    let brokers = fixture.broker().brokers().to_owned();
    fixture.set("POSTRIDER_BROKERS", &brokers).unset("POSTRIDER_RELAY_ENABLED");
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].value_text(), Some("1"));
}

#[test]
fn the_warning_is_repeated_with_rate_and_limit() {
    let options = PostgresOptions::default().setting("max_slot_wal_keep_size", "1GB");
    let server = PostgresServer::start(options);
    let mut fixture = Fixture::on(BINARY, "forecast", &server.address(), &shared::broker());
    pause(&mut fixture);
    fixture.start_relay();
    let mut warned = 0;
    // Each must report something new: WAL is written all the time.
    wait_until("three warnings", 2 * SOON, || {
        write_wal(&fixture);
        warned = warnings(fixture.relay()).len();
        warned >= 3
    });
    let warnings = warnings(fixture.relay());
    for warning in &warnings {
        assert!(warning.contains("max_slot_wal_keep_size"), "{warning}");
        assert!(!warning.contains("fill the disk"), "{warning}");
    }
    for warning in &warnings[1..] {
        assert!(warning.contains("of WAL, growing by "), "{warning}");
        assert!(warning.contains("at this rate"), "{warning}");
    }
}

#[test]
fn a_missing_or_dropped_slot_needs_an_operator() {
    let mut fixture = Fixture::new(BINARY, "gone");
    pause(&mut fixture);
    fixture.start_relay();
    let relay = fixture.relay();
    wait_until("the slot to be seen", SOON, || status(relay)["slot_retained_bytes"] != 0);
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let log = wait_halt(&mut fixture);
    assert!(log.contains("is gone: it was dropped"), "{log}");
    assert_halts_at_start(&mut fixture, "is gone: it was dropped", "postrider recover");
}

#[test]
fn an_unreachable_server_is_waited_for() {
    let mut fixture = Fixture::new(BINARY, "away");
    let proxy = testkit::proxy::Proxy::to(fixture.postgres().port());
    proxy.refuse();
    let url = fixture.postgres().url_via(proxy.port(), fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    pause(&mut fixture);
    let relay = fixture.start_relay();
    wait_until("a reason", SOON, || {
        status(relay)["reason"].as_str().is_some_and(|reason| reason.contains("can't be checked"))
    });
    assert_eq!(status(relay)["state"], "paused");
    proxy.pass();
    wait_until("the slot to be seen", SOON, || {
        status(relay)["slot_retained_bytes"].as_i64() > Some(0)
    });
    let reason = status(relay)["reason"].clone();
    assert!(!reason.as_str().unwrap().contains("can't be checked"), "{reason}");
}
