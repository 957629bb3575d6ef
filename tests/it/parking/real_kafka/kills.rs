//! SIGKILL for the relay at random moments: between a refusal, the side table's commit, a claim, a
//! record and its acknowledgement.

use super::super::load::{LIMIT, Load, Topics};
use super::super::model::Model;
use super::super::{BINARY, SOON, statuses, with_fast_poller, write};
use crate::harness::rig::print_line;
use crate::harness::slot::wait_confirmed;
use crate::harness::topics::{assert_was_denied, deny_describe_configs, kafka_with_rules};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

/// Kills while events are written, and while those for the missing topic are finally delivered.
const KILLS: usize = 15;
const KILLS_DELIVERING: usize = 5;

/// Why the relay does not know which events the topic accepts.
#[derive(Clone, Copy, PartialEq)]
enum Unknown {
    /// With compression, the topic's limit is meaningless.
    Compressed,
    /// The relay has no permission to read the limit.
    Denied,
}

#[track_caller]
fn fixture(name: &str, order: &str, unknown: Unknown) -> (Fixture, Topics) {
    let (address, broker) = (shared::postgres().address(), kafka_with_rules().broker());
    let mut fixture = with_fast_poller(Fixture::on(BINARY, name, &address, &broker));
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", order);
    // Events claimed by a killed poller are soon taken over; no kill makes an event dead.
    fixture.set("POSTRIDER_UNDELIVERED_LEASE", "3s");
    fixture.set("POSTRIDER_UNDELIVERED_MAX_ATTEMPTS", "10000");
    fixture.set("POSTRIDER_UNDELIVERED_BATCH", "20");
    let limited = fixture.create_topic("limited", 3, &[LIMIT]);
    match unknown {
        Unknown::Compressed => {
            fixture.set("POSTRIDER_KAFKA_PROPERTIES_COMPRESSION_TYPE", "zstd");
        }
        Unknown::Denied => deny_describe_configs(&broker, &limited),
    }
    let missing = fixture.topic("missing");
    (fixture, Topics { limited, missing })
}

#[track_caller]
fn delivered(fixture: &Fixture) -> i64 {
    statuses(fixture).get("delivered").copied().unwrap_or_default()
}

#[track_caller]
fn check(name: &str, order: &str, unknown: Unknown) {
    let (mut fixture, topics) = fixture(name, order, unknown);
    fixture.start_relay().wait_ready(SOON);
    let load = Load::start(&fixture, &topics);
    for _ in 0..KILLS {
        // From "has not even connected" to "streams for a while".
        load.wait_for_more(rand::random_range(20..1_200));
        fixture.relay().kill9();
        fixture.start_relay();
    }
    let written = load.finish(&fixture);
    wait_confirmed(&fixture);

    fixture.create_topic("missing", 3, &[]);
    for _ in 0..KILLS_DELIVERING {
        let before = delivered(&fixture);
        let more = rand::random_range(1..100);
        let pending = |fixture: &Fixture| {
            let sql = "SELECT count(*) FROM postrider.undelivered
                WHERE status <> 'delivered' AND next_attempt_at < 'infinity' AND status <> 'dead'";
            fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0)
        };
        wait_until("parked events to be delivered", SOON, || {
            delivered(&fixture) >= before + more || pending(&fixture) == 0
        });
        fixture.relay().kill9();
        fixture.start_relay();
    }
    let model = match order {
        "continue" => Model::overtaking(&written, &topics.limited),
        _ => Model::by_key(&written),
    };
    model.wait_side_table(&mut fixture);
    wait_confirmed(&fixture);
    let verdict = model.read(&fixture, &[&topics.limited, &topics.missing]);
    print_line(&format!("{name}: {} events, {verdict}", written.len()));
    verdict.assert_at_least_once(None);
    assert!(fixture.relay().is_running(), "{}", fixture.relay().log_tail(20));
    if unknown == Unknown::Denied {
        // The relay that runs now may have had nothing to publish to the topic.
        let id = write(&fixture, &topics.limited, None, "{}");
        let consumer = Consumer::new(fixture.broker(), &[&topics.limited]);
        consumer.read_until(SOON, |records| records.iter().any(|record| record.id() == id));
        assert_was_denied(&mut fixture);
    }
}

#[test]
fn the_relay_is_killed_at_random_moments() {
    check("parking_killed", "park-key", Unknown::Compressed);
}

#[test]
fn the_relay_is_killed_at_random_moments_with_limits_denied() {
    check("denied_killed", "park-key", Unknown::Denied);
}

#[test]
fn the_relay_is_killed_at_random_moments_with_continue() {
    check("overtaking_killed", "continue", Unknown::Compressed);
}
