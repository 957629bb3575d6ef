//! Many topics at once: the state of one holds up no other.

use super::super::{BINARY, SOON, statuses, wait_statuses, with_fast_poller, write};
use crate::harness::metrics::metric_sum;
use crate::harness::slot::wait_confirmed;
use testkit::check::Expected;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;

/// Once, each stopped all others for three seconds: an hour for these. How long they take now is
/// measured by `make bench` (`BENCH_ONLY=missing`).
const MISSING: i64 = 1000;

/// One event of each missing topic, each followed by three of an existing topic.
const BACKLOG: &str = "INSERT INTO public.outbox (topic, ordering_key, payload)
    SELECT CASE part WHEN 0 THEN $1 || '.' || n ELSE $2 END, 'k' || part, '{}'
      FROM generate_series(1, $3::bigint) n, generate_series(0, 3) part ORDER BY n, part
    RETURNING topic, ordering_key, id::text";

#[test]
fn a_thousand_missing_topics_hold_up_no_other() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "many_missing"));
    let (good, missing) = (fixture.create_topic("good", 1, &[]), fixture.topic("missing"));
    let rows = fixture.client().query(BACKLOG, &[&missing, &good, &MISSING]).unwrap();
    let mut expected = Expected::default();
    for row in rows.iter().filter(|row| row.get::<_, String>(0) == good) {
        expected.push(&good, &row.get::<_, String>(1), row.get::<_, String>(2));
    }
    fixture.start_relay();
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    wait_statuses(&fixture, &[("pending", MISSING)]);
    wait_confirmed(&fixture);
    assert_eq!(metric_sum(fixture.relay(), "postrider_restarts_total"), 0.0);
}

/// The next event does not fit although the events in flight are below the bound, and nothing can
/// continue before a topic is given up.
#[test]
fn missing_topics_do_not_hold_up_events_that_fill_the_memory() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "missing_large"));
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_BYTES", "24KiB");
    let (good, missing) = (fixture.create_topic("good", 1, &[]), fixture.topic("missing"));
    let large = "INSERT INTO public.outbox (topic, payload)
        SELECT $1 || '.' || n, to_json(repeat('x', 8000)) FROM generate_series(1, 100) n";
    fixture.client().execute(large, &[&missing]).unwrap();
    let id = write(&fixture, &good, None, "{}");
    fixture.start_relay();
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), id);
    wait_statuses(&fixture, &[("pending", 100)]);
}

#[test]
fn events_that_waited_for_an_answer_keep_their_order() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "waited"));
    let topics = ["a", "b"].map(|name| fixture.create_topic(name, 3, &[]));
    let missing = fixture.topic("missing");
    let mut expected = Expected::default();
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT t, 'k' || n % 7, '{}' FROM generate_series(1, 3000) n, unnest($1::text[]) t ORDER BY n
        RETURNING topic, ordering_key, id::text";
    let all: Vec<&str> = topics.iter().chain([&missing]).map(String::as_str).collect();
    for row in fixture.client().query(sql, &[&all]).unwrap() {
        let [topic, key, id]: [String; 3] = [0, 1, 2].map(|column| row.get(column));
        expected.push(&topic, &key, id);
    }
    fixture.start_relay().wait_ready(SOON);
    wait_confirmed(&fixture);
    assert_eq!(statuses(&fixture).values().sum::<i64>(), 3000, "those of the missing topic");
    fixture.create_topic("missing", 3, &[]);
    wait_statuses(&fixture, &[("delivered", 3000)]);
    let records = Consumer::new(fixture.broker(), &all).read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
}

/// The client's own limit is below that of a topic in the careful lane.
#[test]
fn a_record_refused_by_the_client_is_refused_alone() {
    let mut fixture = with_fast_poller(Fixture::new(BINARY, "client_refuses"));
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_MESSAGE_MAX_BYTES", "60000");
    let careful = fixture.create_topic("careful", 1, &[("max.message.bytes", "100000")]);
    let large = "INSERT INTO public.outbox (topic, ordering_key, payload)
        VALUES ($1, $2, to_json(repeat('x', 80000)))";
    let mut expected = Expected::default();
    for number in 0..10 {
        let key = format!("k{}", number % 3);
        if number == 4 {
            fixture.client().execute(large, &[&careful, &"large"]).unwrap();
        }
        expected.push(&careful, &key, write(&fixture, &careful, Some(&key), "{}"));
    }
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
    wait_statuses(&fixture, &[("dead", 1)]);
    wait_confirmed(&fixture);
    assert_eq!(metric_sum(fixture.relay(), "postrider_restarts_total"), 0.0);
}
