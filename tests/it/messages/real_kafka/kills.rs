//! SIGKILL for the relay while rows, messages and packs arrive mixed: nothing is lost, keys keep
//! their order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::super::ignored::assert_position_advances;
use super::super::order::write;
use super::super::{BINARY, SOON, emit_batch, fixture};
use crate::harness::rig::{print_line, read};
use testkit::check::Expected;
use testkit::fixture::Fixture;
use testkit::relay::Relay;
use testkit::wait::wait_until;

const KILLS: usize = 12;
const WRITERS: usize = 3;

/// Writes until stopped. It has its own keys, so their order is that of its commits.
fn load(
    fixture: &Fixture,
    topic: &str,
    writer: usize,
    stop: &AtomicBool,
    committed: &AtomicUsize,
) -> Vec<(String, String)> {
    let mut client = fixture.client();
    let mut written = Vec::new();
    let mut number = writer;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let mut transaction = client.transaction().unwrap();
        let mut events = Vec::new();
        for event in 0..[1, 10, 1, 60][number % 4] {
            let key = format!("w{writer}-{}", event % 3);
            let mut savepoint = transaction.transaction().unwrap();
            let id = write(&mut savepoint, topic, &key, (event + number).is_multiple_of(3));
            match (event + number) % 11 {
                0 => savepoint.rollback().unwrap(),
                _ => {
                    savepoint.commit().unwrap();
                    events.push((key, id));
                }
            }
        }
        if number.is_multiple_of(3) {
            let key = format!("w{writer}-0");
            let ids = emit_batch(&mut transaction, topic, &key, 1 + number % 500);
            events.extend(ids.into_iter().map(|id| (key.clone(), id)));
        }
        if number.is_multiple_of(7) {
            transaction.rollback().unwrap();
            continue;
        }
        transaction.commit().unwrap();
        committed.fetch_add(events.len(), Ordering::Relaxed);
        written.append(&mut events);
    }
    written
}

#[test]
fn the_relay_is_killed_at_random_moments() {
    let mut fixture = fixture("message_killed");
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut relay = Some(fixture.take_relay());
    let (stop, committed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let written: Vec<Vec<(String, String)>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (fixture, topic, stop, committed) = (&fixture, &topic, &stop, &committed);
                scope.spawn(move || load(fixture, topic, writer, stop, committed))
            })
            .collect();
        for _ in 0..KILLS {
            let enough = committed.load(Ordering::Relaxed) + rand::random_range(50..2_000);
            wait_until("the writers to continue", SOON, || {
                committed.load(Ordering::Relaxed) >= enough
            });
            if let Some(mut relay) = relay.take() {
                relay.kill9();
            }
            relay = Some(Relay::start(BINARY.as_ref(), fixture.env()));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut expected = Expected::default();
    for (key, id) in written.iter().flatten() {
        expected.push(&topic, key, id);
    }
    assert_position_advances(&fixture);
    let verdict = read(fixture.broker(), &topic, expected);
    print_line(&format!("messages and rows, {KILLS} kills: {verdict}"));
    verdict.assert_at_least_once(None);
}
