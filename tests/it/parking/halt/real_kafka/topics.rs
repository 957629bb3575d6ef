//! Topics that are missing or too small; the relay goes on when they are mended.

use super::super::{BINARY, MARKER, Odd, Scene};
use crate::harness::topics::{add_partitions, alter_topic};
use testkit::fixture::Fixture;

/// A refusal is first met in company and then alone, with a restart between, so what was not yet
/// confirmed then is written again.
const BEFORE: usize = 3;
/// And so are the two good events behind a bad one of another topic, and once more after the halt.
const BEHIND: usize = 4;

#[test]
fn a_missing_topic_halts_the_relay_until_it_is_created() {
    let mut fixture = Fixture::new(BINARY, "missing").halting();
    let good = fixture.create_topic("events", 3, &[]);
    let missing = fixture.topic("missing");
    let mut scene = Scene::new(fixture, &good, &missing, &Odd::default());
    scene.assert_halts("the topic does not exist");
    scene.assert_before_is_there(BEFORE);
    let exists = scene.fixture.broker().partition_count(&missing);
    assert_eq!(exists, None, "the relay has created it");
    scene.fixture.create_topic("missing", 1, &[]);
    scene.assert_goes_on(BEFORE + BEHIND);
}

#[test]
fn a_missing_partition_halts_the_relay_at_every_start() {
    let mut fixture = Fixture::new(BINARY, "beyond").halting();
    let topic = fixture.create_topic("events", 1, &[]);
    let odd = Odd { partition: Some(2), ..Odd::default() };
    let mut scene = Scene::new(fixture, &topic, &topic, &odd);
    scene.assert_halts("partition 2 does not exist; the topic's partition count is 1");
    scene.assert_only_before(BEFORE);
    scene.assert_halts("partition 2 does not exist; the topic's partition count is 1");
    scene.assert_only_before(BEFORE);
}

#[test]
fn a_missing_partition_halts_the_relay_until_it_is_added() {
    let mut fixture = Fixture::new(BINARY, "grows").halting();
    let good = fixture.create_topic("events", 3, &[]);
    let small = fixture.create_topic("small", 1, &[]);
    let odd = Odd { partition: Some(2), ..Odd::default() };
    let mut scene = Scene::new(fixture, &good, &small, &odd);
    scene.assert_halts("partition 2 does not exist; the topic's partition count is 1");
    scene.assert_before_is_there(BEFORE);
    add_partitions(scene.fixture.broker(), &small, 3);
    scene.assert_goes_on(BEFORE + BEHIND);
}

#[test]
fn an_event_larger_than_its_topics_limit_halts_the_relay_until_the_limit_is_raised() {
    let mut fixture = Fixture::new(BINARY, "large").halting();
    let topic = fixture.create_topic("events", 3, &[("max.message.bytes", "2000")]);
    let payload = format!("\"{}\"", MARKER.repeat(400));
    let odd = Odd { payload: Some(&payload), ..Odd::default() };
    let mut scene = Scene::new(fixture, &topic, &topic, &odd);
    scene.assert_halts("the topic accepts 2000 (max.message.bytes)");
    scene.assert_only_before(0);
    scene.assert_halts("the topic accepts 2000 (max.message.bytes)");
    scene.assert_only_before(0);
    alter_topic(scene.fixture.broker(), &topic, "max.message.bytes", "9000");
    scene.assert_goes_on(0);
}
