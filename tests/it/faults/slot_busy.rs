//! A slot that another client holds is waited for.

use std::path::Path;
use std::process::{Child, Stdio};

use super::load::Pace;
use super::rig::{BINARY, SOON, TAIL, prepare};
use crate::support::fixture::Fixture;
use crate::support::port::free_port;
use crate::support::relay::Relay;
use crate::support::shared;
use crate::support::wait::wait_until;

/// `pg_recvlogical` on the fixture's slot; it confirms nothing, so nothing is taken from the relay.
struct Occupant(Child);

impl Occupant {
    #[track_caller]
    fn take(fixture: &Fixture) -> Occupant {
        let child = shared::postgres()
            .tool("pg_recvlogical")
            .args(["--dbname", fixture.database(), "--slot", fixture.slot()])
            .args(["--start", "--no-loop", "--file", "/dev/null"])
            // Neither flushed nor reported: the position stays where the relay will need it.
            .args(["--fsync-interval=3600", "--status-interval=0"])
            .args(["--option", "proto_version=1"])
            .args(["--option", "publication_names=postrider"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start pg_recvlogical");
        let occupant = Occupant(child);
        wait_until("pg_recvlogical to hold the slot", SOON, || fixture.slot_holder().is_some());
        occupant
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        // SIGKILL: on SIGINT it would confirm what it has read, which is not in Kafka.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_relay_waits_and_takes_over() {
    let mut rig = prepare("busy").start_load(Pace::Steady);
    let occupant = Occupant::take(&rig.fixture);
    let relay = rig.fixture.start_relay();
    // It says so to whoever asks, for as long as it lasts.
    for _ in 0..3 {
        wait_until("/readyz to give the reason", SOON, || {
            let answer = relay.http_get("/readyz");
            answer.is_ok_and(|(status, body)| status == 503 && body.contains("is active for PID"))
        });
        rig.load.wait_for_more(1_000);
    }
    assert_eq!(relay.http_get("/livez").unwrap().0, 200);
    assert!(relay.is_running());
    let log = relay.log();
    let lines = log.lines().filter(|line| line.contains("is active for PID"));
    assert_eq!(lines.count(), 1, "one line is enough:\n{log}");

    drop(occupant);
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(0);
}

#[test]
fn a_relay_that_lost_its_slot_says_who_has_it() {
    let mut rig = prepare("stolen").start(Pace::Steady);
    rig.wait_caught_up();
    let relay = rig.fixture.relay();
    relay.pause();
    let mut client = rig.fixture.client();
    let end = "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots
        where slot_name = $1";
    client.query(end, &[&rig.fixture.slot()]).unwrap();
    let occupant = Occupant::take(&rig.fixture);
    rig.fixture.relay().resume();
    let relay = rig.fixture.relay();
    wait_until("the relay to see that its slot is taken", SOON, || {
        let answer = relay.http_get("/readyz");
        answer.is_ok_and(|(status, body)| status == 503 && body.contains("is active for PID"))
    });
    // It had streamed before: the loss of its session is one line, the busy slot another.
    let log = relay.log();
    assert!(log.contains("is active for PID"), "no word about it:\n{log}");
    drop(occupant);
    rig.fixture.relay().wait_ready(SOON);
    rig.judge(TAIL);
}

#[test]
fn a_second_relay_takes_over_from_a_killed_one() {
    let mut rig = prepare("second").start(Pace::Hard);
    let mut env = rig.fixture.env().to_vec();
    let listen = ("POSTRIDER_HTTP_LISTEN".to_owned(), format!("127.0.0.1:{}", free_port()));
    env.push(listen);
    let mut second = Relay::start(Path::new(BINARY), &env);
    wait_until("the second relay to wait for the slot", SOON, || {
        let answer = second.http_get("/readyz");
        answer.is_ok_and(|(status, body)| status == 503 && body.contains("is active for PID"))
    });
    rig.fixture.relay().kill9();
    second.wait_ready(SOON);
    rig.load.wait_for_more(1_000);
    second.kill9();
    rig.fixture.start_relay().wait_ready(SOON);
    rig.judge(2 * TAIL);
}
