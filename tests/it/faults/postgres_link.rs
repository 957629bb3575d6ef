//! The connection to Postgres breaks: reset, cut in the middle of a frame, refused, silent,
//! forgotten.

use std::time::Duration;

use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON, prepare_on};
use testkit::postgres::{PostgresOptions, PostgresServer, TcpAuth};
use testkit::proxy::Proxy;
use testkit::shared;
use testkit::wait::wait_until;

/// With a password, whose exchange can be cut too.
#[track_caller]
fn start(name: &str, pace: Pace) -> (PostgresServer, Proxy, Rig) {
    let server = PostgresServer::start(PostgresOptions {
        auth: TcpAuth::ScramSha256,
        ..PostgresOptions::default()
    });
    let proxy = Proxy::to(server.port());
    let prepared = prepare_on(name, &server.address(), &shared::broker());
    let rig = prepared.postgres_via(proxy.port()).start(pace);
    (server, proxy, rig)
}

/// Waits until the relay streams again: new events come through the proxy.
#[track_caller]
fn wait_streaming_again(proxy: &Proxy, rig: &mut Rig) {
    rig.fixture.relay().wait_ready(SOON);
    let before = proxy.bytes_to_clients();
    wait_until("the stream to continue", SOON, || proxy.bytes_to_clients() > before + 100_000);
}

#[test]
fn the_connection_is_cut_repeatedly_real_kafka() {
    let (_server, proxy, mut rig) = start("pg_cut", Pace::Hard);
    // Inside the greeting, the password exchange, the catalog queries, the first frames, a
    // transaction: each count ends another step of a session.
    let counts = [1, 100, 401, 1_003, 2_500, 4_001, 9_999, 65_537];
    for bytes in counts {
        // At once, so that the count begins with a new session instead of the old one.
        proxy.cut_after_bytes(bytes);
        proxy.cut();
        proxy.wait_cut(SOON);
    }
    wait_streaming_again(&proxy, &mut rig);
    for _ in 0..3 {
        proxy.cut();
        wait_streaming_again(&proxy, &mut rig);
    }
    // A server that can't be reached for a while.
    proxy.refuse();
    proxy.cut();
    rig.endure(Duration::from_secs(3));
    assert!(rig.fixture.relay().is_running());
    proxy.pass();
    wait_streaming_again(&proxy, &mut rig);
    rig.judge((counts.len() + 4) * REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_connection_is_silent_and_then_resumes() {
    let (_server, proxy, mut rig) = start("pg_hole", Pace::Steady);
    // Shorter than any timeout: the session may continue.
    proxy.black_hole();
    rig.endure(Duration::from_secs(2));
    proxy.pass();
    wait_streaming_again(&proxy, &mut rig);
    // Longer: the relay gives up, and so does the server.
    proxy.black_hole();
    wait_until("the relay to notice the silence", SOON, || {
        let answer = rig.fixture.relay().http_get("/readyz");
        answer.is_ok_and(|(status, _)| status == 503)
    });
    rig.endure(Duration::from_secs(5));
    proxy.pass();
    wait_streaming_again(&proxy, &mut rig);
    rig.judge(2 * REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_connection_is_forgotten_by_a_firewall() {
    let (_server, proxy, mut rig) = start("pg_stranded", Pace::Steady);
    proxy.strand();
    wait_streaming_again(&proxy, &mut rig);
    rig.judge(REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_connection_is_forgotten_while_the_relay_connects() {
    let (_server, proxy, mut rig) = start("pg_opening", Pace::Steady);
    // In the password exchange, between the catalog queries, before the stream starts: a relay that
    // waits there forever never streams again.
    let counts = [40, 1_200, 2_400];
    for bytes in counts {
        proxy.strand_after_bytes(bytes);
        proxy.cut();
        proxy.wait_cut(SOON);
        wait_streaming_again(&proxy, &mut rig);
    }
    rig.judge((counts.len() + 1) * REPEATED_BY_RESTART_MAX);
}
