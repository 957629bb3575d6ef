//! Faults of the row itself, known before anything is sent. A row in the WAL can't be repaired, so
//! every start halts before it again.

use super::{BINARY, MARKER, Overrides, Scenario};
use testkit::fixture::Fixture;

#[track_caller]
fn check(name: &str, bad_topic: Option<&str>, overrides: &Overrides<'_>, reason: &str) {
    let mut fixture = Fixture::new(BINARY, name).halting();
    let good_topic = fixture.create_topic("events", 3, &[]);
    let bad_topic = bad_topic.unwrap_or(&good_topic).to_owned();
    let mut scenario = Scenario::new(fixture, &good_topic, &bad_topic, overrides);
    scenario.assert_halts(reason);
    scenario.assert_only_earlier_published(0);
    // Earlier events were confirmed, and the position was held: no duplicates, same event.
    scenario.assert_halts(reason);
    scenario.assert_only_earlier_published(0);
}

#[test]
fn an_illegal_topic_name_halts_the_relay() {
    let reason = "topic name is illegal";
    check("illegal", Some("no topic/at all"), &Overrides::default(), reason);
}

#[test]
fn an_empty_topic_name_halts_the_relay() {
    let reason = "topic name is illegal";
    check("empty", Some(""), &Overrides::default(), reason);
}

#[test]
fn a_topic_name_of_250_characters_halts_the_relay() {
    let reason = "topic name is illegal";
    check("long", Some(&"x".repeat(250)), &Overrides::default(), reason);
}

#[test]
fn headers_that_are_an_array_halt_the_relay() {
    let headers = format!("[\"{MARKER}\"]");
    let overrides = Overrides { headers: Some(&headers), ..Overrides::default() };
    let reason = "column \"headers\" is not a JSON object";
    check("array", None, &overrides, reason);
}

#[test]
fn headers_that_are_a_number_halt_the_relay() {
    let overrides = Overrides { headers: Some("42"), ..Overrides::default() };
    let reason = "column \"headers\" is not a JSON object";
    check("number", None, &overrides, reason);
}

#[test]
fn a_header_name_with_a_nul_halts_the_relay() {
    let headers = format!("{{\"a\\u0000{MARKER}\":1}}");
    let overrides = Overrides { headers: Some(&headers), ..Overrides::default() };
    let reason = "column \"headers\" has a name with a NUL character";
    check("nul", None, &overrides, reason);
}

#[test]
fn a_negative_partition_halts_the_relay() {
    let overrides = Overrides { partition: Some(-1), ..Overrides::default() };
    check("negative", None, &overrides, "column \"partition\" is -1");
}

#[test]
fn an_event_larger_than_the_clients_limit_halts_the_relay() {
    let mut fixture = Fixture::new(BINARY, "client_limit").halting();
    let topic = fixture.create_topic("events", 3, &[]);
    let limit = "POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES";
    fixture.set(limit, "20000");
    let payload = format!("\"{}\"", MARKER.repeat(3_000));
    let overrides = Overrides { payload: Some(&payload), ..Overrides::default() };
    let mut scenario = Scenario::new(fixture, &topic, &topic, &overrides);
    scenario.assert_halts("too large");
    scenario.assert_only_earlier_published(0);
    scenario.fixture.unset(limit);
    scenario.assert_continues(0);
}
