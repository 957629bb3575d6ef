//! OAUTHBEARER: the relay fetches a signed token, the broker checks it.

use super::token_endpoint::{CLIENT, SECRET, TokenEndpoint};
use super::{
    assert_arrived, assert_no_secret, ca, count, create_topic_for, fixture, set, wait_unready,
    write_event,
};
use crate::harness::servers::secured_kafka;
use testkit::fixture::Fixture;
use testkit::kafka::secured::forged_token;

/// A user that only these tests have.
const USER: &str = "token-user";

fn fixture_with(name: &str, endpoint: &TokenEndpoint) -> Fixture {
    let properties = [
        ("security.protocol", "sasl_ssl"),
        ("ssl.ca.location", &ca()),
        ("sasl.mechanism", "OAUTHBEARER"),
        ("sasl.oauthbearer.method", "oidc"),
        ("sasl.oauthbearer.client.id", CLIENT),
        ("sasl.oauthbearer.client.secret", SECRET),
        ("sasl.oauthbearer.token.endpoint.url", &endpoint.url()),
    ];
    fixture(name, &secured_kafka().oauth(), &properties)
}

#[track_caller]
fn assert_no_token(fixture: &mut Fixture, token: &str) {
    let signature = token.rsplit('.').next().unwrap();
    let log = fixture.relay().log();
    assert!(!log.contains(signature), "a token in:\n{log}");
}

#[test]
fn a_signed_token_from_the_token_endpoint_is_accepted() {
    let token = secured_kafka().token(USER);
    let endpoint = TokenEndpoint::giving(token.clone());
    let mut fixture = fixture_with("token", &endpoint);
    let topic = create_topic_for(&mut fixture, USER);
    let id = write_event(&fixture, &topic);
    fixture.start_relay();
    assert_arrived(&mut fixture, &[id]);
    assert!(endpoint.given() > 0, "the broker accepts anybody");
    assert_no_token(&mut fixture, &token);
}

#[test]
fn a_token_that_the_endpoint_refuses_is_reported() {
    let endpoint = TokenEndpoint::giving(secured_kafka().token(USER));
    let mut fixture = fixture_with("no_token", &endpoint);
    set(&mut fixture, &[("sasl.oauthbearer.client.secret", "wrong-m4rker")]);
    write_event(&fixture, "t");
    let relay = fixture.start_relay();
    let fix = "check kafka.properties.sasl.oauthbearer.token.endpoint.url";
    wait_unready(relay, &["OAUTHBEARER token", "invalid_client", fix]);
    assert_eq!(count(relay, "waiting for Kafka"), 1, "{}", relay.log());
    assert_no_secret(relay);
    assert_eq!(endpoint.given(), 0);
}

#[test]
fn a_token_with_a_foreign_signature_is_reported() {
    let token = forged_token(USER);
    let endpoint = TokenEndpoint::giving(token.clone());
    let mut fixture = fixture_with("forged_token", &endpoint);
    write_event(&fixture, "t");
    let relay = fixture.start_relay();
    wait_unready(relay, &["SASL authentication error", "the brokers reject the token"]);
    assert_no_secret(relay);
    assert_no_token(&mut fixture, &token);
}
