//! The outbox table changes while events are published.

use std::time::Duration;

use postgres::Client;

use testkit::consumer::{Consumer, Received};
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(30);

/// A running relay, a topic with one partition, which keeps the order of everything, and its
/// reader.
struct Running {
    fixture: Fixture,
    client: Client,
    consumer: Consumer,
    topic: String,
}

impl Running {
    #[track_caller]
    fn start(name: &str) -> Running {
        let mut fixture = Fixture::new(BINARY, name);
        let topic = fixture.create_topic("orders", 1, &[]);
        fixture.start_relay().wait_ready(SOON);
        Running { client: fixture.client(), consumer: fixture.consumer(), fixture, topic }
    }

    /// Runs SQL in which `{topic}` stands for the topic.
    #[track_caller]
    fn sql(&mut self, sql: &str) {
        let sql = sql.replace("{topic}", &self.topic);
        self.client.batch_execute(&sql).unwrap();
    }

    #[track_caller]
    fn read(&self) -> Received {
        self.consumer.read_n(1, SOON).remove(0)
    }

    #[track_caller]
    fn assert_values(&self, expected: &[&str]) {
        let records = self.consumer.read_n(expected.len(), SOON);
        let values: Vec<_> = records.iter().filter_map(Received::value_text).collect();
        assert_eq!(values, expected);
    }

    fn confirmed(&mut self) -> String {
        let sql = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = $1";
        let slot = self.fixture.slot().to_owned();
        self.client.query_one(sql, &[&slot]).unwrap().get(0)
    }
}

#[test]
fn columns_are_added_dropped_and_moved() {
    let mut running = Running::start("columns");
    let insert = "insert into outbox (topic, ordering_key, payload) values";
    for (number, change) in [
        "select 1",
        "alter table outbox add column note text default 'new', add column area point",
        "alter table outbox rename column note to remark",
        "alter table outbox drop column tenant, drop column remark, drop column headers",
        "alter table outbox add column tenant text, add column headers jsonb",
        // Required columns move to the end of the row.
        "alter table outbox drop column payload, add column payload json",
        "alter table outbox drop column topic, add column topic text",
        "alter table outbox drop column idempotency_key, drop column id, drop column created_at",
        "alter table outbox add column id uuid default '6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f'",
    ]
    .into_iter()
    .enumerate()
    {
        // Once between two events and once inside a transaction that has events before it.
        running.sql(&format!("{insert} ('{{topic}}', 'before', '{number}')"));
        running.sql(&format!(
            "begin; {insert} ('{{topic}}', 'inside', '{number}'); {change};
             {insert} ('{{topic}}', 'inside', '{{\"n\": {number}}}'); commit"
        ));
        running.sql(&format!("{insert} ('{{topic}}', 'after', ' {number}')"));
        for (key, value) in [
            ("before", format!("{number}")),
            ("inside", format!("{number}")),
            ("inside", format!("{{\"n\": {number}}}")),
            ("after", format!(" {number}")),
        ] {
            let record = running.read();
            assert_eq!(record.key_text(), Some(key), "{change}");
            assert_eq!(record.value_text(), Some(value.as_str()), "{change}");
        }
    }
    // The columns that came back have their old meaning.
    running.sql(
        "insert into outbox (topic, payload, tenant, headers)
         values ('{topic}', '[]', 'acme', '{\"a\": 1}')",
    );
    let record = running.read();
    assert_eq!(record.header("id"), Some("6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f"));
    assert_eq!(record.header("tenant"), Some("acme"));
    assert_eq!(record.header("a"), Some("1"));
    assert_eq!(record.header("idempotency-key"), None);
}

#[test]
fn the_payload_can_change_its_type() {
    let mut running = Running::start("payload_type");
    let json = "insert into outbox (topic, payload) values ('{topic}', '{\"b\":1,  \"a\":2}')";
    running.sql(json);
    running.sql("alter table outbox alter column payload type jsonb");
    running.sql(json);
    running.sql(
        "alter table outbox alter column payload type bytea using convert_to(payload::text, 'UTF8')",
    );
    let bytes = "insert into outbox (topic, payload) values ('{topic}', '\\x000aff')";
    running.sql(bytes);
    running.sql("alter table outbox alter column payload type text using encode(payload, 'hex')");
    running.sql("insert into outbox (topic, payload) values ('{topic}', 'text')");
    let values =
        ["{\"b\":1,  \"a\":2}".as_bytes(), b"{\"a\": 2, \"b\": 1}", b"\x00\x0a\xff", b"text"];
    let records = running.consumer.read_n(values.len(), SOON);
    let found: Vec<_> = records.iter().filter_map(|it| it.value.as_deref()).collect();
    assert_eq!(found, values);
}

// The relay requests binary values if it knows the binary form of all types. It can't know that of
// a user-defined type.
#[test]
fn a_column_gets_a_user_defined_type_while_the_relay_runs() {
    let mut running = Running::start("user_type");
    running.sql("create type kind as enum ('paid')");
    running.sql("insert into outbox (topic, type, payload) values ('{topic}', 'paid', '1')");
    running.sql("alter table outbox alter column type type kind using type::kind");
    running.sql("insert into outbox (topic, type, payload) values ('{topic}', 'paid', '2')");
    running.sql("alter table outbox alter column type type text");
    running.sql("insert into outbox (topic, type, payload) values ('{topic}', 'paid', '3')");
    // To change the form of values it restarts the stream, so the previous event may be repeated.
    let is_last = |record: &Received| record.value_text() == Some("3");
    let read = |so_far: &[Received]| so_far.iter().any(is_last);
    let mut records = running.consumer.read_until(SOON, read);
    records.dedup_by(|one, other| one.value == other.value);
    let values: Vec<_> = records.iter().filter_map(Received::value_text).collect();
    assert_eq!(values, ["1", "2", "3"]);
    assert!(records.iter().all(|it| it.header("type") == Some("paid")));
}

// The log has rows as the table was then, whatever it looks like when the relay starts.
#[test]
fn a_backlog_has_a_user_defined_type_that_the_table_no_longer_has() {
    let mut running = Running::start("old_type");
    running.fixture.relay().kill9();
    running.sql("create domain name_of_topic as text");
    running.sql("alter table outbox alter column topic type name_of_topic");
    running.sql("insert into outbox (topic, payload) values ('{topic}', '1')");
    running.sql("alter table outbox alter column topic type text");
    running.sql("insert into outbox (topic, payload) values ('{topic}', '2')");
    running.fixture.start_relay();
    running.assert_values(&["1", "2"]);
}

// Under its other name the table would look like a foreign one, and its rows would be ignored.
#[test]
fn a_renamed_table_is_the_same_table() {
    let mut running = Running::start("table_name");
    running.sql("insert into outbox (topic, payload) values ('{topic}', '1')");
    running.sql("alter table outbox rename to outbox_of_before");
    running.sql("insert into outbox_of_before (topic, payload) values ('{topic}', '2')");
    running.sql("alter table outbox_of_before rename to outbox");
    running.sql("insert into outbox (topic, payload) values ('{topic}', '3')");
    running.assert_values(&["1", "2", "3"]);
}

#[test]
fn removing_a_required_column_halts_the_relay_and_loses_nothing() {
    let mut running = Running::start("renamed");
    running.sql("insert into outbox (topic, payload) values ('{topic}', '1')");
    running.assert_values(&["1"]);
    running.sql("alter table outbox rename column topic to subject");
    running.sql("insert into outbox (subject, payload) values ('{topic}', '2')");
    assert_halts(&mut running);
    let held = running.confirmed();

    // Starting again without the fix does not help, and does no harm.
    running.fixture.start_relay();
    assert_halts(&mut running);
    assert_eq!(running.confirmed(), held);
    assert_eq!(running.consumer.end_offsets(&running.topic), [1]);

    running.sql("alter table outbox rename column subject to topic");
    running.sql("insert into outbox (topic, payload) values ('{topic}', '3')");
    running.fixture.start_relay();
    running.assert_values(&["2", "3"]);
}

#[track_caller]
fn assert_halts(running: &mut Running) {
    let relay = running.fixture.relay();
    let status = relay.wait_exit(SOON);
    let log = relay.log();
    assert_eq!(status.code(), Some(3), "{log}");
    let sentence =
        log.lines().find(|line| line.contains("public.outbox") && line.contains("\"topic\""));
    assert!(sentence.is_some(), "no message names table and column:\n{log}");
}
