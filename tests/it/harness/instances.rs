//! Several instances of a relay on one slot.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::print_line;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::relay::Relay;
use testkit::wait::{wait_for, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Five seconds are promised; the machine may be busy.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(20);

/// Another instance with the fixture's configuration, which waits for the slot.
#[track_caller]
pub fn start_second(fixture: &Fixture) -> Relay {
    let second = start_another(fixture);
    wait_standby(&second);
    second
}

/// Another instance with the fixture's configuration.
pub fn start_another(fixture: &Fixture) -> Relay {
    start_another_with(fixture, &[])
}

/// The same with something else in its configuration.
pub fn start_another_with(fixture: &Fixture, variables: &[(&str, &str)]) -> Relay {
    let mut env = fixture.env().to_vec();
    env.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    env.push(("POSTRIDER_HTTP_LISTEN".to_owned(), format!("127.0.0.1:{}", free_port())));
    Relay::start(Path::new(BINARY), &env)
}

/// The answer of `/status`; null if there is none.
pub fn status(relay: &Relay) -> Value {
    let body = relay.http_get("/status").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(&body).unwrap_or_default()
}

#[track_caller]
pub fn wait_standby(relay: &Relay) {
    wait_until("an instance to stand by", SOON, || stands_by(relay));
}

pub fn stands_by(relay: &Relay) -> bool {
    status(relay)["state"] == "standby"
}

/// Ends the session of a standby that reads too little to take over, while the slot is free, and waits
/// until it stands by again.
#[track_caller]
pub fn interrupt_standby(fixture: &Fixture, standby: &Relay) {
    let refusals = || standby.log().matches("does not take over").count();
    let before = refusals();
    let sql = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'postrider standby'";
    let ended: i64 = fixture.client().query_one(sql, &[]).unwrap().get(0);
    assert_eq!(ended, 1, "there is no such session");
    wait_until("the standby to stand by again", SOON, || refusals() > before);
    assert!(fixture.slot_holder().is_none(), "{}", standby.log());
}

pub fn streams(relay: &Relay) -> bool {
    ["streaming", "catching-up"].iter().any(|state| status(relay)["state"] == *state)
}

/// Waits until one of these has taken over, and prints how long that took.
#[track_caller]
pub fn wait_takeover(name: &str, since: Instant, others: &[&Relay]) -> usize {
    let found = || others.iter().position(|relay| streams(relay));
    let position = wait_for("another instance to stream", TAKEN_OVER_WITHIN, found);
    print_line(&format!(
        "{name}: another instance streams after {} ms",
        since.elapsed().as_millis()
    ));
    position
}
