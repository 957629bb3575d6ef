//! The same where the brokers do not allow reading a topic's limits: only their refusals show them.

use super::super::BINARY;
use super::batches::{LIMIT, assert_all_published, assert_halts_at_the_large_one};
use crate::harness::topics::{assert_was_denied, deny_describe_configs, kafka_with_rules};
use testkit::fixture::Fixture;
use testkit::shared;

/// A fixture with a topic whose limit is small and can't be read.
#[track_caller]
fn with_hidden_limit(name: &str) -> (Fixture, String) {
    let address = shared::postgres().address();
    let mut fixture = Fixture::on(BINARY, name, &address, &kafka_with_rules().broker()).halting();
    let topic = fixture.create_topic("events", 3, &[LIMIT]);
    deny_describe_configs(&kafka_with_rules().broker(), &topic);
    (fixture, topic)
}

#[test]
fn events_that_fit_are_published() {
    let (mut fixture, topic) = with_hidden_limit("secret_fitting");
    assert_all_published(&mut fixture, &topic);
    assert_was_denied(&mut fixture);
}

#[test]
fn exactly_the_event_that_does_not_fit_halts_the_relay() {
    let (mut fixture, topic) = with_hidden_limit("secret_mixed");
    assert_halts_at_the_large_one(&mut fixture, &topic, "too large");
    assert_was_denied(&mut fixture);
}
