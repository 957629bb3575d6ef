//! `postgres.snapshot = initial`: rows that are there before the slot come first.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::halt::confirmed_lsn;
use crate::support::check::Expected;
use crate::support::consumer::Received;
use crate::support::fixture::Fixture;
use crate::support::shared;
use crate::support::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);
const KEYS: i64 = 50;

/// An outbox with a publication and without a slot.
pub(crate) fn without_slot(name: &str) -> Fixture {
    let broker = shared::broker();
    let mut fixture = Fixture::unmigrated(BINARY, name, &shared::postgres().address(), &broker);
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    assert!(confirmed_lsn(&fixture).is_none(), "migrate has made the slot");
    fixture
}

/// Writes events of all keys in turn, so many in a transaction.
pub(crate) fn write(fixture: &Fixture, topic: &str, events: i64, per_transaction: i64) {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'key-' || g % $3, to_json(g) FROM generate_series(1, $2::bigint) g";
    let mut client = fixture.client();
    for _ in 0..events / per_transaction {
        client.execute(sql, &[&topic, &per_transaction, &KEYS]).unwrap();
    }
}

/// Everything in the table, in the order of ids: the order of commits where one session writes.
pub(crate) fn expected(fixture: &Fixture) -> Expected {
    let mut expected = Expected::default();
    let sql = "SELECT topic, ordering_key, id FROM public.outbox ORDER BY id";
    for row in fixture.client().query(sql, &[]).unwrap() {
        let (topic, key): (&str, &str) = (row.get(0), row.get(1));
        expected.push(topic, key, row.get::<_, i64>(2));
    }
    expected
}

pub(crate) fn read_all(fixture: &Fixture, expected: &Expected) -> Vec<Received> {
    let consumer = fixture.consumer();
    let mut records = consumer.read_n(expected.len(), SOON);
    records.extend(consumer.drain_quiet(QUIET));
    records
}

#[test]
fn rows_that_are_there_come_first_then_the_stream() {
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

#[test]
fn killed_again_and_again_it_loses_nothing_and_goes_on_where_it_was() {
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
            // Each time a little further, if it can be.
            let began = Instant::now();
            wait_until("the snapshot goes on", SOON, || {
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
    wait_until("the slot takes over", SOON, || rows_saved(&fixture).is_none());
    let expected = expected(&fixture);
    let records = read_all(&fixture, &expected);
    let verdict = expected.verdict(&records);
    verdict.assert_at_least_once(None);
    let repeated = verdict.duplicates.count;
    assert!(repeated < 10 * ROWS as usize / 2, "it began anew each time: {repeated} duplicates");
    println!("{kills} kills, {repeated} duplicates of {} events", verdict.expected);
}

/// How many rows are known to be published, as long as the snapshot is under way.
fn rows_saved(fixture: &Fixture) -> Option<i64> {
    let sql = "SELECT coalesce((SELECT sum(rows) FROM postrider.backfill_table t
                                 WHERE t.slot = b.slot), 0)::bigint
                 FROM postrider.backfill b WHERE slot = $1";
    fixture.client().query_opt(sql, &[&fixture.slot()]).unwrap().map(|row| row.get(0))
}
