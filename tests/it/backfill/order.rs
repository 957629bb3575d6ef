//! Tables whose ids do not give the order: rows are published in the best known order, and a later
//! attempt continues where the first ended or begins with the first row.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);

/// Creates a table in Debezium's layout with additional columns.
fn with_uuid_table(fixture: &mut Fixture, more: &str) {
    let sql = format!(
        "CREATE TABLE public.events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
             aggregatetype text NOT NULL, aggregateid text NOT NULL, type text, payload jsonb {more})"
    );
    fixture.client().batch_execute(&sql).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.events");
    fixture.set("POSTRIDER_POSTGRES_PRESET", "debezium");
    fixture.set("POSTRIDER_ROUTE_TOPIC", "{aggregatetype}");
}

fn on_shared(name: &str) -> Fixture {
    Fixture::unmigrated(BINARY, name, &shared::postgres().address(), &shared::broker())
}

const INSERT: &str = "INSERT INTO public.events (aggregatetype, aggregateid, payload) VALUES ($1, $2, to_jsonb($3::int))";

/// One event in a transaction of its own.
fn write_one(fixture: &Fixture, topic: &str, key: &str, number: i32) {
    fixture.client().execute(INSERT, &[&topic, &key, &number]).unwrap();
}

/// The numbers in the payloads of each key, in the order of their first occurrences.
fn by_key(records: &[Received]) -> BTreeMap<String, Vec<i32>> {
    let mut numbers: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for record in records {
        let of_key = numbers.entry(record.key_text().unwrap_or("").to_owned()).or_default();
        let number = record.value_text().unwrap().parse().unwrap();
        if !of_key.contains(&number) {
            of_key.push(number);
        }
    }
    numbers
}

#[track_caller]
fn recover(fixture: &Fixture) -> String {
    let output = fixture.run(&["recover"]);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stdout}{errors}");
    stdout
}

fn drop_slot(fixture: &Fixture) {
    let sql = "SELECT pg_drop_replication_slot($1)";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
}

#[test]
fn rows_with_uuids_are_published_in_the_order_of_their_transactions() {
    let mut fixture = on_shared("order_uuid");
    with_uuid_table(&mut fixture, "");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    drop_slot(&fixture);
    for number in 1..=20 {
        write_one(&fixture, &topic, "a", number);
        write_one(&fixture, &topic, "b", number);
    }
    // One transaction that writes single rows and many at once.
    let mut client = fixture.client();
    let mut transaction = client.transaction().unwrap();
    for number in 21..=30 {
        transaction.execute(INSERT, &[&topic, &"a", &number]).unwrap();
    }
    let many = "INSERT INTO public.events (aggregatetype, aggregateid, payload)
        SELECT $1, 'b', to_jsonb(g) FROM generate_series(21, 500) g";
    transaction.execute(many, &[&topic]).unwrap();
    transaction.commit().unwrap();
    let stdout = recover(&fixture);
    assert!(stdout.contains("published by transaction number, which is not always"), "{stdout}");
    let found = by_key(&fixture.consumer().read_n(530, SOON));
    assert_eq!(found["a"], (1..=30).collect::<Vec<_>>());
    assert_eq!(found["b"], (1..=500).collect::<Vec<_>>());
}

#[test]
fn created_at_precedes_the_transaction_and_savepoints_keep_the_order_of_writing() {
    let mut fixture = on_shared("order_created");
    with_uuid_table(&mut fixture, ", created_at timestamptz NOT NULL DEFAULT now()");
    snapshot_by_created_at(fixture, "created_at");
}

#[test]
fn a_mapped_created_at_sets_the_order_too() {
    let mut fixture = on_shared("order_mapped");
    with_uuid_table(&mut fixture, ", written_at timestamptz NOT NULL DEFAULT now()");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", "created_at=written_at");
    snapshot_by_created_at(fixture, "written_at");
}

#[track_caller]
fn snapshot_by_created_at(mut fixture: Fixture, column: &str) {
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    // The second begins first and writes later.
    let (mut early, mut late) = (fixture.client(), fixture.client());
    let mut second = early.transaction().unwrap();
    second.execute("SELECT now()", &[]).unwrap();
    let mut first = late.transaction().unwrap();
    first.execute(INSERT, &[&topic, &"k", &10]).unwrap();
    first.commit().unwrap();
    second.execute(INSERT, &[&topic, &"k", &1]).unwrap();
    {
        let mut savepoint = second.transaction().unwrap();
        savepoint.execute(INSERT, &[&topic, &"k", &2]).unwrap();
        savepoint.commit().unwrap();
    }
    second.execute(INSERT, &[&topic, &"k", &3]).unwrap();
    second.commit().unwrap();
    let sql = format!("UPDATE public.events SET {column} = 'infinity' WHERE payload = '99'");
    write_one(&fixture, &topic, "k", 99);
    write_one(&fixture, &topic, "k", 20);
    assert_eq!(fixture.client().execute(&sql, &[]).unwrap(), 1);
    fixture.start_relay().wait_ready(SOON);
    let found = by_key(&fixture.consumer().read_n(6, SOON));
    assert_eq!(found["k"], [1, 2, 3, 10, 20, 99]);
    let log = fixture.relay().log();
    assert!(log.contains("by created_at"), "{log}");
}

#[test]
fn a_created_at_that_goes_back_within_a_transaction_does_not_set_the_order() {
    let mut fixture = on_shared("order_back");
    with_uuid_table(&mut fixture, ", created_at timestamptz");
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    let sql = "INSERT INTO public.events (aggregatetype, aggregateid, payload, created_at)
        SELECT $1, 'k', to_jsonb(g), now() - g * interval '1 minute' FROM generate_series(1, 50) g";
    fixture.client().execute(sql, &[&topic]).unwrap();
    fixture.start_relay().wait_ready(SOON);
    let found = by_key(&fixture.consumer().read_n(50, SOON));
    assert_eq!(found["k"], (1..=50).collect::<Vec<_>>());
}

#[test]
fn commit_times_set_the_order_where_the_server_keeps_them() {
    let options = PostgresOptions::default().setting("track_commit_timestamp", "on");
    let server = PostgresServer::start(options);
    let mut fixture =
        Fixture::unmigrated(BINARY, "order_commit", &server.address(), &shared::broker());
    with_uuid_table(&mut fixture, ", created_at timestamptz NOT NULL DEFAULT now()");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    drop_slot(&fixture);
    // It begins and writes first, and commits last.
    let mut client = fixture.client();
    let mut last = client.transaction().unwrap();
    last.execute(INSERT, &[&topic, &"k", &11]).unwrap();
    {
        let mut savepoint = last.transaction().unwrap();
        savepoint.execute(INSERT, &[&topic, &"k", &12]).unwrap();
        savepoint.commit().unwrap();
    }
    last.execute(INSERT, &[&topic, &"k", &13]).unwrap();
    for number in 1..=10 {
        write_one(&fixture, &topic, "k", number);
    }
    last.commit().unwrap();
    let stdout = recover(&fixture);
    assert!(stdout.contains("by commit time, which is not always commit order"), "{stdout}");
    let found = by_key(&fixture.consumer().read_n(13, SOON));
    assert_eq!(found["k"], (1..=13).collect::<Vec<_>>());
}

/// A minimal table whose ids cannot be used for the order: 20 transactions of 100 rows.
fn with_unusable_ids(name: &str, kind: &str, id: &str) -> (Fixture, String) {
    let mut fixture = on_shared(name);
    let table = format!(
        "CREATE SEQUENCE ids; CREATE TABLE public.plain (id {kind}, topic text, payload json)"
    );
    fixture.client().batch_execute(&table).unwrap();
    fixture.set("POSTRIDER_TABLES", "public.plain");
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    let sql = format!(
        "INSERT INTO public.plain SELECT {id}, $1, to_json($2::int + g) FROM generate_series(1, 100) g"
    );
    let mut client = fixture.client();
    for part in 0..20 {
        client.execute(&sql, &[&topic, &(part * 100)]).unwrap();
    }
    (fixture, topic)
}

/// The number of rows known to be published, and the value from which a later attempt continues.
fn saved(fixture: &Fixture) -> (i64, Option<i64>) {
    let sql = "SELECT rows, reached FROM postrider.backfill_table WHERE slot = $1";
    let row = fixture.client().query_opt(sql, &[&fixture.slot()]).unwrap();
    row.map_or((0, None), |row| (row.get(0), row.get(1)))
}

#[test]
fn a_kill_loses_nothing_when_ids_are_equal_or_null() {
    // The last one: a sequence that returned each number many times, as after a reset.
    let given_out = "bigint NOT NULL DEFAULT nextval('ids')";
    for (name, kind, id) in [
        ("order_equal", "bigint", "1"),
        ("order_null", "bigint", "NULL"),
        ("order_given_out", given_out, "($2::int + g) / 70"),
    ] {
        let (mut fixture, _) = with_unusable_ids(name, kind, id);
        fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", "20");
        fixture.set("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "100");
        fixture.start_relay();
        wait_until("some are published", SOON, || saved(&fixture).1.is_some());
        fixture.relay().kill9();
        let (before, _) = saved(&fixture);
        assert!((100..2_000).contains(&before), "{before}");
        fixture.unset("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS");
        fixture.unset("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS");
        fixture.start_relay().wait_ready(SOON);
        let records = fixture.consumer().drain_quiet(QUIET);
        let values: BTreeSet<&str> =
            records.iter().filter_map(|record| record.value_text()).collect();
        assert_eq!(values.len(), 2_000, "{}", fixture.relay().log());
        // It continued after whole transactions instead of beginning with the first.
        assert!(records.len() < 2_000 + 400, "{} records, {before} before", records.len());
    }
}

#[test]
fn a_partition_attached_in_between_is_published_too() {
    let mut fixture = on_shared("order_attached");
    fixture
        .client()
        .batch_execute(
            "CREATE TABLE public.parted (id bigint PRIMARY KEY, topic text, payload json)
                 PARTITION BY RANGE (id);
             CREATE TABLE public.parted_2 PARTITION OF public.parted FOR VALUES FROM (1000) TO (9000);
             CREATE TABLE public.parted_1 (LIKE public.parted INCLUDING INDEXES)",
        )
        .unwrap();
    fixture.set("POSTRIDER_TABLES", "public.parted");
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    let topic = fixture.create_topic("events", 1, &[]);
    let mut client = fixture.client();
    for (table, from, to) in [("parted_1", 1, 10), ("parted", 1000, 2999)] {
        let sql = format!(
            "INSERT INTO public.{table} SELECT g, $1, to_json(g) FROM generate_series({from}, {to}) g"
        );
        client.execute(&sql, &[&topic]).unwrap();
    }
    fixture.set("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS", "20");
    fixture.set("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS", "100");
    fixture.start_relay();
    wait_until("some are published", SOON, || saved(&fixture).1.is_some());
    fixture.relay().kill9();
    let attach =
        "ALTER TABLE public.parted ATTACH PARTITION public.parted_1 FOR VALUES FROM (1) TO (1000)";
    client.batch_execute(attach).unwrap();
    fixture.unset("POSTRIDER_LIMITS_IN_FLIGHT_EVENTS");
    fixture.unset("POSTRIDER_KAFKA_PROPERTIES_LINGER_MS");
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().drain_quiet(QUIET);
    let values: BTreeSet<&str> = records.iter().filter_map(|record| record.value_text()).collect();
    assert_eq!(values.len(), 2_010);
}
