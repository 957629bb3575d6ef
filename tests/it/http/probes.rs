//! `/livez`, `/readyz`, `/status`, `/`.

use serde_json::Value;

use super::{BINARY, SOON, write_events};
use testkit::fixture::Fixture;
use testkit::mock::MockBroker;
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::{wait_for, wait_until};

fn status(relay: &Relay) -> Value {
    let (code, body) = relay.http_get("/status").unwrap();
    assert_eq!(code, 200);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn a_running_relay_is_alive_and_ready_and_reports_its_state() {
    let mut fixture = Fixture::new(BINARY, "probes");
    let topic = fixture.create_topic("events", 1, &[]);
    let slot = fixture.slot().to_owned();
    fixture.start_relay().wait_ready(SOON);
    write_events(&fixture, &topic, 3);
    fixture.consumer().read_n(3, SOON);
    let relay = fixture.relay();
    assert_eq!(relay.http_get("/livez").unwrap(), (200, "alive\n".into()));
    assert_eq!(relay.http_get("/readyz").unwrap(), (200, "ready\n".into()));
    let now = wait_for("nothing in flight", SOON, || {
        let status = status(relay);
        let settled = status["in_flight_events"] == 0 && status["slot_retained_bytes"] != 0;
        settled.then_some(status)
    });
    assert_eq!(now["state"], "streaming");
    assert_eq!(now["reason"], Value::Null);
    assert_eq!(now["slot"], slot.as_str());
    assert_eq!(now["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(now["in_flight_bytes"], 0);
    assert_eq!(now["lag_seconds"], 0.0);
    assert!(now["last_progress_timestamp_seconds"].as_f64().unwrap() > 1.7e9);
    assert!(now["slot_unconfirmed_bytes"].is_i64());
}

#[test]
fn the_status_has_the_slots_own_position() {
    let mut fixture = Fixture::new(BINARY, "position");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write_events(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
    let sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
    let mut client = fixture.client();
    let slot = fixture.slot().to_owned();
    let relay = fixture.relay();
    // Both advance while other tests write WAL; they are equal now and then.
    wait_until("the slot and /status to agree", SOON, || {
        let theirs: String = client.query_one(sql, &[&slot]).unwrap().get(0);
        status(relay)["confirmed_lsn"] == theirs.as_str()
    });
}

#[test]
fn there_is_a_page_for_people_and_no_other() {
    let mut fixture = Fixture::new(BINARY, "page");
    let slot = fixture.slot().to_owned();
    let relay = fixture.start_relay();
    relay.wait_ready(SOON);
    let (code, page) = relay.http_get("/").unwrap();
    assert_eq!(code, 200);
    for part in ["<h1>postrider</h1>", &slot, "streaming", "href=/metrics"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    for path in ["/nothing", "/metrics/x", "/status.json"] {
        assert_eq!(relay.http_get(path).unwrap().0, 404, "{path}");
    }
}

#[test]
fn the_server_can_be_switched_off() {
    let mut fixture = Fixture::new(BINARY, "off");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.set("POSTRIDER_HTTP_LISTEN", "off");
    write_events(&fixture, &topic, 1);
    fixture.start_relay();
    fixture.consumer().read_n(1, SOON);
    let pid = i32::try_from(fixture.relay().pid().unwrap()).unwrap();
    let process = procfs::process::Process::new(pid).unwrap();
    let sockets: Vec<u64> = process
        .fd()
        .unwrap()
        .flatten()
        .filter_map(|fd| match fd.target {
            procfs::process::FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect();
    let listening = procfs::net::tcp()
        .unwrap()
        .into_iter()
        .filter(|entry| entry.state == procfs::net::TcpState::Listen)
        .filter(|entry| sockets.contains(&entry.inode))
        .count();
    assert_eq!(listening, 0, "it listens on a port");
}

#[test]
fn a_slow_broker_after_a_calm_time_is_not_reported_as_unreachable() {
    let mock = MockBroker::start(1);
    let server = shared::postgres();
    let mut fixture = Fixture::on(BINARY, "calm", &server.address(), &mock.broker());
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    write_events(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
    let began = status(fixture.relay())["last_progress_timestamp_seconds"].clone();
    // Idle for longer than a broker may be silent with events in flight.
    wait_until("a calm time", SOON, || {
        let now = status(fixture.relay())["last_progress_timestamp_seconds"].clone();
        now.as_f64().unwrap() - began.as_f64().unwrap() > 4.0
    });
    mock.with(|cluster| cluster.broker_round_trip_time(1, std::time::Duration::from_millis(1500)))
        .unwrap();
    write_events(&fixture, &topic, 1);
    let relay = fixture.relay();
    wait_until("the event to be on its way", SOON, || status(relay)["in_flight_events"] == 1);
    let waiting = relay.http_get("/readyz").unwrap();
    assert_eq!(waiting.0, 200, "{}", waiting.1);
}
