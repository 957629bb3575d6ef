//! Topics that are missing or too small; the relay continues after they are fixed.

use super::super::{BINARY, MARKER, Overrides, Scenario};
use crate::harness::topics::{add_partitions, alter_topic};
use testkit::fixture::Fixture;

/// An event is first refused in a batch and then alone, with a restart in between, so unconfirmed
/// events are written again.
const REPEATED_BEFORE_MAX: usize = 3;
/// And so are the two good events after a bad one of another topic, and once more after the halt.
const REPEATED_AFTER_MAX: usize = 4;

#[test]
fn a_missing_topic_halts_the_relay_until_it_is_created() {
    let mut fixture = Fixture::new(BINARY, "missing").halting();
    let good = fixture.create_topic("events", 3, &[]);
    let missing = fixture.topic("missing");
    let mut scenario = Scenario::new(fixture, &good, &missing, &Overrides::default());
    scenario.assert_halts("the topic does not exist");
    scenario.assert_earlier_published(REPEATED_BEFORE_MAX);
    let exists = scenario.fixture.broker().partition_count(&missing);
    assert_eq!(exists, None, "the relay has created it");
    scenario.fixture.create_topic("missing", 1, &[]);
    scenario.assert_continues(REPEATED_BEFORE_MAX + REPEATED_AFTER_MAX);
}

#[test]
fn a_missing_partition_halts_the_relay_at_every_start() {
    let mut fixture = Fixture::new(BINARY, "beyond").halting();
    let topic = fixture.create_topic("events", 1, &[]);
    let overrides = Overrides { partition: Some(2), ..Overrides::default() };
    let mut scenario = Scenario::new(fixture, &topic, &topic, &overrides);
    scenario.assert_halts("partition 2 does not exist; the topic's partition count is 1");
    scenario.assert_only_earlier_published(REPEATED_BEFORE_MAX);
    scenario.assert_halts("partition 2 does not exist; the topic's partition count is 1");
    scenario.assert_only_earlier_published(REPEATED_BEFORE_MAX);
}

#[test]
fn a_missing_partition_halts_the_relay_until_it_is_added() {
    let mut fixture = Fixture::new(BINARY, "grows").halting();
    let good = fixture.create_topic("events", 3, &[]);
    let small = fixture.create_topic("small", 1, &[]);
    let overrides = Overrides { partition: Some(2), ..Overrides::default() };
    let mut scenario = Scenario::new(fixture, &good, &small, &overrides);
    scenario.assert_halts("partition 2 does not exist; the topic's partition count is 1");
    scenario.assert_earlier_published(REPEATED_BEFORE_MAX);
    add_partitions(scenario.fixture.broker(), &small, 3);
    scenario.assert_continues(REPEATED_BEFORE_MAX + REPEATED_AFTER_MAX);
}

#[test]
fn an_event_larger_than_its_topics_limit_halts_the_relay_until_the_limit_is_raised() {
    let mut fixture = Fixture::new(BINARY, "large").halting();
    let topic = fixture.create_topic("events", 3, &[("max.message.bytes", "2000")]);
    let payload = format!("\"{}\"", MARKER.repeat(400));
    let overrides = Overrides { payload: Some(&payload), ..Overrides::default() };
    let mut scenario = Scenario::new(fixture, &topic, &topic, &overrides);
    scenario.assert_halts("the topic accepts 2000 (max.message.bytes)");
    scenario.assert_only_earlier_published(0);
    scenario.assert_halts("the topic accepts 2000 (max.message.bytes)");
    scenario.assert_only_earlier_published(0);
    alter_topic(scenario.fixture.broker(), &topic, "max.message.bytes", "9000");
    scenario.assert_continues(0);
}
