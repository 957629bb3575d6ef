//! A relay that parks nothing stops at an event whose subject is unknown, and waits for a registry
//! that is away.

use super::{BINARY, SOON, configure, subject, wait_blocked, write};
use crate::harness::halt::{last_two_lines, wait_halt};
use testkit::fixture::Fixture;
use testkit::registry_stub::RegistryStub;

#[test]
fn an_unknown_subject_halts_a_relay_that_does_not_park() {
    let mut stub = RegistryStub::start();
    let mut fixture = Fixture::new(BINARY, "registry_halt").halting();
    configure(&mut fixture, &stub);
    let topic = fixture.create_topic("t", 1, &[]);
    stub.stop();
    fixture.start_relay().wait_ready(SOON);
    let id = write(&fixture, &topic, None, "{}");
    wait_blocked(&mut fixture, &["can't connect"]);
    stub.resume();
    let log = wait_halt(&mut fixture);
    let [message, _] = last_two_lines(&log);
    assert!(message.contains(&format!("has no schema for subject \"{topic}-value\"")), "{message}");
    stub.register(&subject(&topic), 7, None);
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
}
