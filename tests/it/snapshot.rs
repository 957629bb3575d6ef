//! `postgres.snapshot = initial`: rows from before the slot come first.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::harness::outbox::{expected, read_all, without_slot, write};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);
const KEYS: i64 = 50;

#[test]
fn existing_rows_come_first_and_then_the_stream() {
    let mut fixture = without_slot("snapshot");
    let topic = fixture.create_topic("events", 3, &[]);
    write(&fixture, &topic, 1_000, 100);
    let relay = fixture.start_relay();
    relay.wait_ready(SOON);
    write(&fixture, &topic, 1_000, 10);
    let expected = expected(&fixture);
    let records = read_all(&fixture, &expected);
    let verdict = expected.verdict(&records);
    verdict.assert_exact();
    let log = fixture.relay().log();
    assert!(log.contains("publishing rows that are in the tables"), "{log}");
    // A restart finds the slot, and repeats nothing.
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.start_relay().wait_ready(SOON);
    write(&fixture, &topic, 1, 1);
    let more = fixture.consumer().drain_quiet(QUIET);
    assert_eq!(more.len(), 2_001, "{}", fixture.relay().log());
    let jobs: i64 =
        fixture.client().query_one("SELECT count(*) FROM postrider.backfill", &[]).unwrap().get(0);
    assert_eq!(jobs, 0);
}

/// A template can have any column in it, so a text must not depend on how a row is read.
#[test]
fn times_look_the_same_in_rows_of_the_table_and_of_the_log() {
    let mut fixture = without_slot("snapshot_times");
    let sql = format!("ALTER DATABASE \"{}\" SET DateStyle = 'German'", fixture.database());
    fixture.client().batch_execute(&sql).unwrap();
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.set("POSTRIDER_ROUTE_HEADERS", "at={created_at}");
    let insert = "INSERT INTO outbox (topic, created_at, payload)
        VALUES ($1, '2030-01-31 08:00:00.5Z'::timestamptz, '{}')";
    let mut client = fixture.client();
    client.execute(insert, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    client.execute(insert, &[&topic]).unwrap();
    let records = fixture.consumer().read_n(2, SOON);
    let times: Vec<_> = records.iter().map(|record| record.header("at").unwrap()).collect();
    assert!(times[0].starts_with("2030-01-"), "{times:?}");
    assert_eq!(times[0], times[1]);
}

/// Such times are in the zone of the database, whatever the zone of the session that reads them:
/// taken for UTC, these would lie in the future.
#[test]
fn times_without_a_zone_are_in_that_of_the_database() {
    let mut fixture = without_slot("snapshot_zone");
    let sql = format!(
        "ALTER DATABASE \"{}\" SET TimeZone = 'Asia/Tokyo';
         ALTER TABLE outbox ALTER created_at TYPE timestamp, ALTER created_at SET DEFAULT now()",
        fixture.database()
    );
    fixture.client().batch_execute(&sql).unwrap();
    let topic = fixture.create_topic("events", 1, &[]);
    write(&fixture, &topic, 1, 1);
    fixture.start_relay().wait_ready(SOON);
    let record = &fixture.consumer().read_n(1, SOON)[0];
    assert_eq!(record.header("committed-at"), None);
}

#[test]
fn a_repeatedly_killed_snapshot_loses_nothing_and_continues_where_it_was() {
    const ROWS: i64 = 60_000;
    let mut fixture = without_slot("snapshot_kill");
    let topic = fixture.create_topic("events", 3, &[]);
    write(&fixture, &topic, ROWS, 1_000);
    let done = AtomicBool::new(false);
    let mut kills = 0;
    scope(|scope| {
        let (mut client, topic, done) = (fixture.client(), topic.as_str(), &done);
        // One writer: the order of ids is the order of commits.
        scope.spawn(move || {
            let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
                SELECT $1, 'key-' || g % 50, '{}' FROM generate_series(1, 20::bigint) g";
            while !done.load(Relaxed) {
                client.execute(sql, &[&topic]).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut rows_before = -1;
        while kills < 10 {
            fixture.start_relay();
            // Each time a little further, if possible.
            let began = Instant::now();
            wait_until("the snapshot to continue", SOON, || {
                let rows = rows_saved(&fixture);
                let further = rows.is_none_or(|rows| rows > rows_before);
                further || began.elapsed() > Duration::from_secs(5)
            });
            rows_before = rows_saved(&fixture).unwrap_or(rows_before);
            fixture.relay().kill9();
            kills += 1;
        }
        done.store(true, Relaxed);
    });
    fixture.start_relay().wait_ready(SOON);
    wait_until("the slot to take over", SOON, || rows_saved(&fixture).is_none());
    let expected = expected(&fixture);
    let records = read_all(&fixture, &expected);
    let verdict = expected.verdict(&records);
    verdict.assert_at_least_once(None);
    let repeated = verdict.duplicates.count;
    assert!(
        repeated < 10 * ROWS as usize / 2,
        "it restarted from the beginning each time: {repeated} duplicates"
    );
    println!("{kills} kills, {repeated} duplicates of {} events", verdict.expected);
}

/// How many rows are known to be published, while the snapshot runs.
fn rows_saved(fixture: &Fixture) -> Option<i64> {
    let sql = "SELECT coalesce((SELECT sum(rows) FROM postrider.backfill_table t
                                 WHERE t.slot = b.slot), 0)::bigint
                 FROM postrider.backfill b WHERE slot = $1";
    fixture.client().query_opt(sql, &[&fixture.slot()]).unwrap().map(|row| row.get(0))
}

#[test]
fn a_row_looks_the_same_from_the_table_and_from_the_stream() {
    let mut fixture = without_slot("snapshot_kinds");
    let topic = fixture.create_topic("events", 1, &[]);
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.by_uuid,public.parted,public.child");
    fixture
        .client()
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('good', 'bad');
             CREATE TABLE by_uuid (id uuid DEFAULT gen_random_uuid(), topic varchar(80), payload bytea,
                 ordering_key mood, headers jsonb, unread point,
                 created_at timestamp DEFAULT '2026-01-01', tenant int);
             CREATE TABLE parted (id int, topic text, payload jsonb, type text, \"partition\" smallint,
                 at date) PARTITION BY RANGE (id);
             CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
             CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200);
             CREATE TABLE child (idempotency_key text DEFAULT 'child') INHERITS (outbox);",
        )
        .unwrap();
    fixture.migrate();
    let rows = [
        "INSERT INTO outbox (topic, payload, headers, traceparent) VALUES ('TOPIC', '{\"a\": 1}',
             '{\"x\": [1, null], \"y\": \"ü\"}', 'trace')",
        "INSERT INTO outbox (topic, payload) VALUES ('TOPIC', NULL)",
        "INSERT INTO by_uuid (topic, payload, ordering_key, headers, unread, tenant)
             VALUES ('TOPIC', '\\x00ff', 'bad', '{\"h\": true}', '(1,2)', 7)",
        "INSERT INTO parted VALUES (5, 'TOPIC', '{\"b\":2}', 't', 0), (105, 'TOPIC', '[]', NULL, NULL)",
        // The row is published once, as itself.
        "INSERT INTO child (topic, payload, id, created_at) VALUES ('TOPIC', '{}', 1000, now())",
    ];
    let write = |fixture: &Fixture| {
        let mut client = fixture.client();
        for row in rows {
            client.batch_execute(&row.replace("TOPIC", &topic)).unwrap();
        }
    };
    write(&fixture);
    fixture.start_relay().wait_ready(SOON);
    let first = fixture.consumer().read_n(6, SOON);
    write(&fixture);
    let both = fixture.consumer().read_n(12, SOON);
    assert_eq!(fixture.consumer().drain_quiet(QUIET).len(), 12);
    let look = |record: &Received| {
        let mut headers: Vec<_> = record.headers.clone();
        headers.retain(|(name, _)| {
            !["id", "idempotency-key", "committed-at"].contains(&name.as_str())
        });
        let key = record.key_text().filter(|key| !key.contains('-')).map(str::to_owned);
        (key, record.value.clone(), format!("{headers:?}"))
    };
    let sorted = |records: &[Received]| {
        let mut looks: Vec<_> = records.iter().map(look).collect();
        looks.sort();
        looks
    };
    assert_eq!(sorted(&first), sorted(&both[6..]));
}

#[test]
fn one_of_two_instances_publishes_the_rows() {
    const ROWS: i64 = 30_000;
    let mut fixture = without_slot("snapshot_two");
    let topic = fixture.create_topic("events", 3, &[]);
    write(&fixture, &topic, ROWS, 1_000);
    fixture.start_relay();
    let mut first = fixture.take_relay();
    let port = testkit::port::free_port();
    fixture.set("POSTRIDER_HTTP_LISTEN", &format!("127.0.0.1:{port}"));
    fixture.start_relay();
    wait_until("one of them to stream", SOON, || {
        rows_saved(&fixture).is_none() && fixture.slot_holder().is_some()
    });
    let expected = expected(&fixture);
    let records = read_all(&fixture, &expected);
    expected.verdict(&records).assert_exact();
    first.kill9();
}

#[test]
fn unpublishable_rows_are_parked_in_order_and_old_rows_are_cleaned() {
    let mut fixture = without_slot("snapshot_parked");
    let topic = fixture.create_topic("events", 1, &[]);
    let missing = fixture.topic("missing");
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    fixture.set("POSTRIDER_CLEANER_INTERVAL", "1s");
    write(&fixture, &topic, 500, 100);
    write(&fixture, &missing, 50, 50);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(500, SOON);
    let parked = "SELECT count(*) FROM postrider.undelivered WHERE status = 'pending'";
    wait_until("the events to be parked", SOON, || {
        fixture.client().query_one(parked, &[]).unwrap().get::<_, i64>(0) == 50
    });
    // All rows that are done are deleted; waiting ones are kept.
    let left = "SELECT count(*), count(*) FILTER (WHERE topic = $1) FROM public.outbox";
    wait_until("the rest to be cleaned", SOON, || {
        let row = fixture.client().query_one(left, &[&missing]).unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1)) == (50, 50)
    });
    fixture.create_topic("missing", 1, &[]);
    let records = testkit::consumer::Consumer::new(fixture.broker(), &[&missing]).read_n(50, SOON);
    let ids: Vec<i64> = records.iter().map(|record| record.id().parse().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}
