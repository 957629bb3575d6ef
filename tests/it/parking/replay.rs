//! `postrider replay`: publishing dead events again.

mod order;
mod real_kafka;
mod stop;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::harness::parked_events::{
    BINARY, MARKER, ParkedEvent, assert_contains_all, count, insert_all, run_command, states,
};
use testkit::fixture::Fixture;

const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_millis(500);

#[test]
fn all_dead_events_are_published_once_and_unchanged() {
    let mut fixture = Fixture::new(BINARY, "all");
    let topic = fixture.create_topic("t", 1, &[]);
    let tombstone = ParkedEvent { value: None, ..ParkedEvent::dead(&topic, 3) };
    insert_all(
        &fixture,
        &[ParkedEvent::keyed(&topic, 1, "k"), ParkedEvent::dead(&topic, 2), tombstone],
    );
    let text = run_command(&fixture, &["replay", "--all"], 0);
    assert_eq!(text, "replayed 3 of 3 dead events\n");
    let consumer = fixture.consumer();
    let records = consumer.read_n(3, SOON);
    assert!(consumer.drain_quiet(QUIET).is_empty());
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.id(), (number + 1).to_string());
        assert_eq!(record.header("replayed"), Some("true"));
    }
    assert_eq!(records[0].key_text(), Some("k"));
    assert_eq!(records[0].value_text(), Some(format!("{MARKER} 1").as_str()));
    assert_eq!(records[2].value, None);
    assert_eq!(states(&fixture), ["1 delivered 1", "2 delivered 1", "3 delivered 1"]);
    assert_eq!(run_command(&fixture, &["replay", "--all"], 0), "replayed 0 of 0 dead events\n");
    let sql = "SELECT events FROM postrider.replayed WHERE topic = $1 AND result = 'success'";
    assert_eq!(fixture.client().query_one(sql, &[&topic]).unwrap().get::<_, i64>(0), 3);
}

#[test]
fn only_selected_events_are_published() {
    let mut fixture = Fixture::new(BINARY, "chosen");
    let topic = fixture.create_topic("t", 1, &[]);
    let rows = [
        ParkedEvent { tenant: Some("acme"), ..ParkedEvent::dead(&topic, 1) },
        ParkedEvent { reason: "too-large", ..ParkedEvent::dead(&topic, 2) },
        ParkedEvent { status: "pending", ..ParkedEvent::dead(&topic, 3) },
        ParkedEvent { parked_ago: "1 day", ..ParkedEvent::dead(&topic, 4) },
        ParkedEvent::dead(&topic, 5),
    ];
    let ids = insert_all(&fixture, &rows);
    run_command(&fixture, &["replay", "--tenant", "acme"], 0);
    run_command(&fixture, &["replay", "--reason", "too-large", "--topic", &topic], 0);
    run_command(&fixture, &["replay", "--until", "2h"], 0);
    let published: Vec<String> =
        fixture.consumer().read_n(3, SOON).iter().map(|record| record.id().to_owned()).collect();
    assert_eq!(published, ["1", "2", "4"]);
    // An id that is not dead is reported as not found.
    let flags = [ids[2], ids[4]].map(|id| id.to_string()).join(",");
    let text = run_command(&fixture, &["replay", "--id", &flags], 1);
    assert_contains_all(&text, &["replayed 1 of 1", "1 of the given ids not found among the dead"]);
    assert_eq!(count(&fixture, "delivered"), 4);
}

#[test]
fn a_limit_selects_the_first_events_in_the_log() {
    let mut fixture = Fixture::new(BINARY, "limit");
    let topic = fixture.create_topic("t", 1, &[]);
    insert_all(&fixture, &[3, 1, 2].map(|ordinal| ParkedEvent::dead(&topic, ordinal)));
    let json = run_command(&fixture, &["replay", "--all", "--limit", "2", "--json"], 0);
    assert_contains_all(&json, &["\"found\":2", "\"replayed\":2", "\"left\":0"]);
    assert_eq!(states(&fixture), ["1 delivered 1", "2 delivered 1", "3 dead 0"]);
}

#[test]
fn a_dry_run_only_counts() {
    let fixture = Fixture::new(BINARY, "dry");
    let fragment =
        ParkedEvent { form: "fragment", reason: "bad-headers", ..ParkedEvent::dead("b", 3) };
    insert_all(&fixture, &[ParkedEvent::dead("a", 1), ParkedEvent::dead("a", 2), fragment]);
    let text = run_command(&fixture, &["replay", "--all", "--dry-run"], 0);
    assert_contains_all(
        &text,
        &["2  a  topic-missing", "1  b  bad-headers (can't be", "up to 2 dead events\n"],
    );
    let json = run_command(&fixture, &["replay", "--all", "--dry-run", "--json"], 0);
    assert_contains_all(
        &json,
        &[r#"{"topic":"a","reason":"topic-missing","publishable":true,"events":2}"#],
    );
    assert_eq!(count(&fixture, "dead"), 3);
}

#[test]
fn the_rate_is_respected() {
    let mut fixture = Fixture::new(BINARY, "rate");
    let topic = fixture.create_topic("t", 1, &[]);
    let rows: Vec<ParkedEvent> = (0..60).map(|number| ParkedEvent::dead(&topic, number)).collect();
    insert_all(&fixture, &rows);
    let began = Instant::now();
    run_command(&fixture, &["replay", "--all", "--rate", "30"], 0);
    // The last of three batches does not wait for its interval.
    assert!(began.elapsed() >= Duration::from_millis(1_900), "{:?}", began.elapsed());
}

#[test]
fn records_carry_the_time_of_their_replay_or_of_their_commit() {
    let mut fixture = Fixture::new(BINARY, "time");
    let topic = fixture.create_topic("t", 1, &[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let committed = (now - Duration::from_secs(60)).as_millis() as i64;
    insert_all(&fixture, &[ParkedEvent::dead(&topic, 1), ParkedEvent::dead(&topic, 2)]);
    let sql = "UPDATE postrider.undelivered \
        SET \"timestamp\" = 'epoch'::timestamptz + $1 * interval '1 millisecond'";
    fixture.client().execute(sql, &[&(committed as f64)]).unwrap();
    run_command(&fixture, &["replay", "--all", "--limit", "1"], 0);
    run_command(&fixture, &["replay", "--all", "--timestamp", "original"], 0);
    let records = fixture.consumer().read_n(2, SOON);
    assert!(records[0].timestamp_ms.unwrap() >= now.as_millis() as i64, "{records:?}");
    assert!(records[0].header("committed-at").is_some());
    assert_eq!(records[1].timestamp_ms, Some(committed));
    assert_eq!(records[1].header("committed-at"), None);
}

#[test]
fn fragments_are_kept_and_the_fix_is_printed() {
    let mut fixture = Fixture::new(BINARY, "fragments");
    let topic = fixture.create_topic("t", 1, &[]);
    let fragment = ParkedEvent { form: "fragment", ..ParkedEvent::dead(&topic, 1) };
    insert_all(&fixture, &[fragment, ParkedEvent::dead(&topic, 2)]);
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(&text, &["replayed 1 of 1", "1 can't be published as they are", "discard"]);
    assert_eq!(states(&fixture), ["1 dead 0", "2 delivered 1"]);
}

/// A value too large for the side table is read from the outbox if its row still exists.
#[test]
fn values_left_in_the_outbox_are_read_there() {
    let mut fixture = Fixture::new(BINARY, "refer");
    let topic = fixture.create_topic("t", 1, &[]);
    let mut client = fixture.client();
    let sql = "INSERT INTO outbox (topic, payload) VALUES ('x', '{\"a\": 1}') RETURNING id";
    let outbox_id: i64 = client.query_one(sql, &[]).unwrap().get(0);
    let reference = |ordinal| ParkedEvent {
        form: "reference",
        value: None,
        ..ParkedEvent::dead(&topic, ordinal)
    };
    insert_all(&fixture, &[reference(outbox_id), reference(outbox_id + 1)]);
    client.execute("UPDATE postrider.undelivered SET value_bytes = 8", &[]).unwrap();
    let text = run_command(&fixture, &["replay", "--all"], 1);
    assert_contains_all(
        &text,
        &["replayed 1 of 2", "value-missing", "is not in public.outbox any more"],
    );
    assert_eq!(fixture.consumer().read_n(1, SOON)[0].value_text(), Some("{\"a\": 1}"));
}
