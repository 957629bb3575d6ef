//! Relays that are killed while the registry comes and goes.

use super::super::{PLAIN, PLAIN_ID, QUIET, SOON, framed, subject, with_registry, write};
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::registry_stub::Behaviour;
use testkit::wait::wait_until;

const KEYS: usize = 3;

#[test]
fn a_killed_relay_loses_nothing_whatever_the_registry_does() {
    let (mut stub, mut fixture) = with_registry("registry_kills");
    let topics = ["a", "b", PLAIN].map(|name| fixture.create_topic(name, 2, &[]));
    for (topic, id) in topics.iter().zip(1..) {
        stub.register(&subject(topic), id, None);
    }
    let mut expected = Expected::default();
    let mut write_round = |fixture: &Fixture| {
        for topic in &topics {
            for number in 0..KEYS * 5 {
                let key = format!("k{}", number % KEYS);
                let id = write(fixture, topic, Some(&key), "{}");
                expected.push(topic, &key, id);
            }
        }
    };
    for round in 0..4 {
        match round {
            0 => stub.stop(),
            1 => {
                stub.behave(Behaviour::Silent);
                stub.resume();
            }
            2 => stub.behave(Behaviour::Status(500)),
            _ => stub.behave(Behaviour::Answers),
        }
        fixture.start_relay();
        write_round(&fixture);
        let consumer = Consumer::new(fixture.broker(), &[&topics[2]]);
        wait_until("events of the other topic", SOON, || {
            let ends: i64 = consumer.end_offsets(&topics[2]).iter().sum();
            ends >= (round + 1) * 15
        });
        fixture.relay().kill9();
    }
    write_round(&fixture);
    fixture.start_relay().wait_ready(SOON);
    wait_confirmed(&fixture);
    let records = fixture.consumer().drain_quiet(QUIET);
    for record in &records {
        let id = topics.iter().position(|topic| *topic == record.topic).unwrap();
        let id = [1, 2, PLAIN_ID][id];
        assert_eq!(record.value, framed(id, "{}"));
    }
    expected.verdict(&records).assert_at_least_once(None);
}
