//! Faults of the row itself, known before anything is sent. A row in the WAL can't be mended, so
//! every start halts before it again.

use super::{BINARY, MARKER, Odd, Scene};
use testkit::fixture::Fixture;

#[track_caller]
fn check(name: &str, bad_topic: Option<&str>, odd: &Odd<'_>, reason: &str) {
    let mut fixture = Fixture::new(BINARY, name).halting();
    let good_topic = fixture.create_topic("events", 3, &[]);
    let bad_topic = bad_topic.unwrap_or(&good_topic).to_owned();
    let mut scene = Scene::new(fixture, &good_topic, &bad_topic, odd);
    scene.assert_halts(reason);
    scene.assert_only_before(0);
    // What lies before it was confirmed, and the position was held: no duplicates, same event.
    scene.assert_halts(reason);
    scene.assert_only_before(0);
}

#[test]
fn an_illegal_topic_name_halts_the_relay() {
    let reason = "topic name is illegal";
    check("illegal", Some("no topic/at all"), &Odd::default(), reason);
}

#[test]
fn an_empty_topic_name_halts_the_relay() {
    let reason = "topic name is illegal";
    check("empty", Some(""), &Odd::default(), reason);
}

#[test]
fn a_topic_name_of_250_characters_halts_the_relay() {
    let reason = "topic name is illegal";
    check("long", Some(&"x".repeat(250)), &Odd::default(), reason);
}

#[test]
fn headers_that_are_an_array_halt_the_relay() {
    let headers = format!("[\"{MARKER}\"]");
    let odd = Odd { headers: Some(&headers), ..Odd::default() };
    let reason = "column \"headers\" is not a JSON object";
    check("array", None, &odd, reason);
}

#[test]
fn headers_that_are_a_number_halt_the_relay() {
    let odd = Odd { headers: Some("42"), ..Odd::default() };
    let reason = "column \"headers\" is not a JSON object";
    check("number", None, &odd, reason);
}

#[test]
fn a_header_name_with_a_nul_halts_the_relay() {
    let headers = format!("{{\"a\\u0000{MARKER}\":1}}");
    let odd = Odd { headers: Some(&headers), ..Odd::default() };
    let reason = "column \"headers\" has a name with a NUL character";
    check("nul", None, &odd, reason);
}

#[test]
fn a_negative_partition_halts_the_relay() {
    let odd = Odd { partition: Some(-1), ..Odd::default() };
    check("negative", None, &odd, "column \"partition\" is -1");
}

#[test]
fn an_event_larger_than_the_clients_limit_halts_the_relay() {
    let mut fixture = Fixture::new(BINARY, "client_limit").halting();
    let topic = fixture.create_topic("events", 3, &[]);
    let limit = "POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES";
    fixture.set(limit, "20000");
    let payload = format!("\"{}\"", MARKER.repeat(3_000));
    let odd = Odd { payload: Some(&payload), ..Odd::default() };
    let mut scene = Scene::new(fixture, &topic, &topic, &odd);
    scene.assert_halts("too large");
    scene.assert_only_before(0);
    scene.fixture.unset(limit);
    scene.assert_goes_on(0);
}
