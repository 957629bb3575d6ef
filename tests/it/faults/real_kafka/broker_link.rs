//! The connection to the broker breaks, alone and together with the one to Postgres.

use std::time::Duration;

use super::take_broker;
use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig, SOON};
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::proxy::Proxy;
use testkit::shared;

/// Waits until everything committed so far has arrived over the connection as it is.
#[track_caller]
fn wait_all_published(rig: &mut Rig) {
    rig.wait_caught_up();
    rig.fixture.relay().wait_ready(SOON);
}

#[test]
fn the_connection_is_cut_repeatedly() {
    let broker = take_broker();
    let mut rig = broker.prepare("kafka_cut", &shared::postgres().address()).start(Pace::Hard);
    let proxy = broker.proxy();
    // Acknowledgements have some 50 to 100 bytes: these cut at their beginning, inside, and after a
    // few of them, and inside the handshake of a new connection.
    let counts = [0, 1, 3, 13, 57, 101, 333, 1_009, 5_003];
    for bytes in counts {
        proxy.cut_after_bytes(bytes);
        proxy.wait_cut(SOON);
    }
    // A produce request has some kilobytes: these cut inside its head, inside its records, and
    // after one or several of them. Half a batch must not become events.
    for bytes in [0, 1, 3, 13, 101, 1_009, 5_003, 20_011, 70_001] {
        proxy.cut_after_bytes_to_server(bytes);
        proxy.wait_cut(SOON);
    }
    for _ in 0..5 {
        proxy.cut();
        rig.load.wait_for_more(1_000);
    }
    proxy.refuse();
    proxy.cut();
    rig.endure(Duration::from_secs(5));
    proxy.pass();
    wait_all_published(&mut rig);
    // The producer repeats what was not acknowledged, and the broker recognizes it by its sequence
    // number.
    rig.judge(REPEATED_BY_RESTART_MAX);
}

#[test]
fn the_connection_is_silent_and_then_forgotten() {
    let broker = take_broker();
    let mut rig = broker.prepare("kafka_hole", &shared::postgres().address()).start(Pace::Steady);
    let proxy = broker.proxy();
    for seconds in [2, 14] {
        proxy.black_hole();
        rig.endure(Duration::from_secs(seconds));
        proxy.pass();
        wait_all_published(&mut rig);
    }
    proxy.strand();
    wait_all_published(&mut rig);
    rig.judge(3 * REPEATED_BY_RESTART_MAX);
}

#[test]
fn both_connections_break_at_once() {
    let broker = take_broker();
    let server = PostgresServer::start(PostgresOptions::default());
    let postgres = Proxy::to(server.port());
    let prepared = broker.prepare("both_links", &server.address());
    let mut rig = prepared.postgres_via(postgres.port()).start(Pace::Steady);
    let both = [broker.proxy(), &postgres];
    for _ in 0..3 {
        both.iter().for_each(|proxy| proxy.cut());
        rig.load.wait_for_more(500);
    }
    both.iter().for_each(|proxy| proxy.cut_after_bytes(777));
    both.iter().for_each(|proxy| proxy.wait_cut(SOON));
    // Postgres gets a handshake and reports of 39 bytes, the broker gets batches: both cuts are
    // inside one.
    both.iter().for_each(|proxy| proxy.cut_after_bytes_to_server(777));
    both.iter().for_each(|proxy| proxy.wait_cut(SOON));
    wait_all_published(&mut rig);

    both.iter().for_each(|proxy| proxy.black_hole());
    rig.endure(Duration::from_secs(14));
    // Postgres comes back first: the relay begins a new session, whose predecessor's records are
    // still held back by the proxy.
    postgres.pass();
    rig.endure(Duration::from_secs(6));
    broker.proxy().pass();
    wait_all_published(&mut rig);

    both.iter().for_each(|proxy| proxy.strand());
    wait_all_published(&mut rig);
    rig.judge(7 * REPEATED_BY_RESTART_MAX);
}
