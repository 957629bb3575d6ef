//! A clean stop: what is in flight is finished and confirmed, and the exit code is 0.

use std::time::Duration;

use crate::harness::load::Pace;
use crate::harness::rig::{Rig, SOON, prepare};
use testkit::proxy::Proxy;
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::wait_until;

/// The longest a stop may take: relay.shutdown_timeout, and a busy machine.
const STOP_WITHIN: Duration = Duration::from_secs(35);

/// After a clean stop, only the transaction that the stream was in is repeated.
const REPEATED_MAX: usize = crate::harness::load::LARGEST_TRANSACTION;

#[track_caller]
fn stop_and_start(rig: &mut Rig, signal: fn(&Relay)) {
    rig.load.wait_for_more(2_000);
    let relay = rig.fixture.relay();
    signal(relay);
    let status = relay.wait_exit(STOP_WITHIN);
    assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
    rig.fixture.start_relay().wait_ready(SOON);
}

#[test]
fn the_relay_stops_on_sigterm_and_sigint_under_load() {
    let mut rig = prepare("stopped").start(Pace::Hard);
    let signals = [Relay::terminate, Relay::interrupt, Relay::terminate];
    for signal in signals {
        stop_and_start(&mut rig, signal);
    }
    rig.judge(signals.len() * REPEATED_MAX);
}

#[test]
fn the_relay_stops_in_the_middle_of_a_backlog_real_kafka() {
    const ROUNDS: usize = 4;
    let mut rig = prepare("backlog").start_load(Pace::Steady);
    let sql = "insert into outbox (topic, ordering_key, payload)
        select $1, 'other', json_build_object('filler', repeat('y', 200))
          from generate_series(1, 10)";
    // Small transactions that nothing waits for, in another topic: the server has more to send than
    // the relay reads, so its side of the socket is full when the relay ends the stream.
    let other = rig.fixture.create_topic("backlog", 1, &[]);
    let mut client = rig.fixture.client();
    client.batch_execute("set synchronous_commit = off").unwrap();
    let insert = client.prepare(sql).unwrap();
    for _ in 0..6_000 {
        client.execute(&insert, &[&other]).unwrap();
    }
    let consumer = rig.fixture.consumer();
    let count = || consumer.end_offsets(&other)[0];
    for _ in 0..ROUNDS {
        let before = count();
        rig.fixture.start_relay();
        wait_until("the relay to work on the backlog", SOON, || count() > before);
        let relay = rig.fixture.relay();
        relay.terminate();
        let status = relay.wait_exit(STOP_WITHIN);
        assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
    }
    assert!(count() < 60_000, "the backlog was too short for this test");
    rig.fixture.start_relay().wait_ready(SOON);
    rig.wait_caught_up();
    let repeated = usize::try_from(count() - 60_000).expect("events of the backlog are lost");
    crate::harness::rig::print_line(&format!("backlog: {repeated} duplicates of the backlog"));
    assert!(repeated <= ROUNDS * 10, "{repeated} were repeated");
    rig.judge(ROUNDS * REPEATED_MAX);
}

#[test]
fn the_relay_stops_while_postgres_is_down() {
    let proxy = Proxy::to(shared::postgres().port());
    let mut prepared = prepare("unreachable").postgres_via(proxy.port());
    for silent in [false, true] {
        if !silent {
            proxy.refuse()
        } else {
            proxy.black_hole()
        }
        let relay = prepared.fixture.start_relay();
        wait_until("the relay to run", SOON, || relay.http_get("/livez").is_ok());
        // Wait until it has tried at least once: then it waits for an answer or for the next
        // attempt.
        wait_until("the relay to try", SOON, || {
            silent && proxy.open_connections() > 0
                || relay.log().contains("restarting from the stored position")
        });
        assert_eq!(relay.http_get("/readyz").unwrap().0, 503);
        relay.terminate();
        // It has nothing in flight and nothing to wait for.
        let status = relay.wait_exit(Duration::from_secs(5));
        assert_eq!(status.code(), Some(0), "{}", relay.log_tail(20));
    }
}
