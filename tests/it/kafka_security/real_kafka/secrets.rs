//! Even the most verbose relay logs no secrets.

use super::{assert_publishes, ca, create_topic_for, fixture, login, set};
use crate::harness::servers::secured_kafka;

#[test]
fn no_secret_is_logged_however_verbose_the_log() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let mut fixture = fixture("talkative", &secured_kafka().sasl(), &[]);
        set(&mut fixture, &login(mechanism, "writer", &ca()));
        set(&mut fixture, &[("debug", "all")]);
        fixture.set("POSTRIDER_LOG", "trace,librdkafka=debug");
        let topic = create_topic_for(&mut fixture, "writer");
        assert_publishes(&mut fixture, &topic);
        let log = fixture.relay().log();
        assert!(log.contains("SASL"), "librdkafka logged nothing:\n{log}");
    }
}
