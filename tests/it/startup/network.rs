//! Unreachable servers, which the relay waits for, and a taken HTTP port, which it reports.

use std::net::TcpListener;

use super::{BINARY, SOON, write_event};
use crate::harness::halt::assert_halts_at_start;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::proxy::Proxy;
use testkit::relay::Relay;
use testkit::wait::wait_until;

/// Waits until `/readyz` reports not ready for this reason, and checks that the relay is alive.
#[track_caller]
fn wait_unready(relay: &mut Relay, reason: &str) {
    let mut last = String::from("no answer");
    wait_until(&format!("not ready: {reason}"), SOON, || {
        let Ok((status, body)) = relay.http_get("/readyz") else {
            return false;
        };
        last = format!("{status} {body}");
        status == 503 && body.contains(reason)
    });
    assert_eq!(relay.http_get("/livez").unwrap().0, 200);
    assert!(relay.is_running(), "{}", relay.log());
}

#[test]
fn a_stopped_server_is_waited_for() {
    let mut fixture = Fixture::new(BINARY, "later");
    let topic = fixture.create_topic("events", 1, &[]);
    let id = write_event(&fixture, &topic);
    let proxy = Proxy::to(fixture.postgres().port());
    proxy.refuse();
    let url = fixture.postgres().url_via(proxy.port(), fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let address = format!("127.0.0.1:{}", proxy.port());
    let relay = fixture.start_relay();
    wait_unready(relay, &address);
    proxy.pass();
    relay.wait_ready(SOON);
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), id);
}

#[test]
fn a_host_that_does_not_exist_is_waited_for() {
    let mut fixture = Fixture::new(BINARY, "no_host");
    // The top-level domain that never exists (RFC 6761).
    let url = "postgresql://postgres:hush-hush@no-such-host.invalid/db";
    fixture.set("POSTRIDER_DATABASE_URL", url);
    let relay = fixture.start_relay();
    wait_unready(relay, "no-such-host.invalid");
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0), "{}", relay.log());
    assert!(!relay.log().contains("hush-hush"), "{}", relay.log());
}

#[test]
fn unreachable_brokers_are_waited_for() {
    let mut fixture = Fixture::new(BINARY, "no_broker");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.set("POSTRIDER_BROKERS", &format!("127.0.0.1:{}", free_port()));
    // Without events nothing is missing.
    fixture.start_relay().wait_ready(SOON);
    let id = write_event(&fixture, &topic);
    let relay = fixture.relay();
    wait_unready(relay, "blocked-on-broker");
    // Longer than the client waits for one answer: a new attempt does not count as progress.
    wait_until("the broker to be unreachable for that long", SOON, || {
        let (_, body) = relay.http_get("/readyz").unwrap();
        let seconds = body.split("nothing for ").nth(1);
        let seconds = seconds.and_then(|text| text.split(' ').next()?.parse().ok());
        seconds.is_some_and(|seconds: u64| seconds > 12)
    });
    relay.terminate();
    assert_eq!(relay.wait_exit(SOON).code(), Some(0), "{}", relay.log());
    // Nothing was confirmed: the event is published once there are brokers.
    let brokers = fixture.broker().brokers().to_owned();
    fixture.set("POSTRIDER_BROKERS", &brokers);
    fixture.start_relay();
    let records = fixture.consumer().read_n(1, SOON);
    assert_eq!(records[0].id(), id);
}

#[test]
fn a_taken_http_port_is_reported() {
    let mut fixture = Fixture::new(BINARY, "taken");
    write_event(&fixture, "anything");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fixture.set("POSTRIDER_HTTP_LISTEN", &address);
    let what = format!("can't listen on {address}");
    assert_halts_at_start(&mut fixture, &what, "http.listen");
}
