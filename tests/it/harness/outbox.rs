//! Writing to a fixture's outbox, and the events that must be in Kafka for it.

use std::time::Duration;

use super::slot::confirmed_lsn;
use testkit::check::Expected;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);
const KEYS: i64 = 50;

/// An outbox with a publication and without a slot.
pub fn without_slot(name: &str) -> Fixture {
    let broker = shared::broker();
    let mut fixture = Fixture::unmigrated(BINARY, name, &shared::postgres().address(), &broker);
    fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    fixture.migrate();
    assert!(confirmed_lsn(&fixture).is_none(), "migrate has created the slot");
    fixture
}

/// Writes events of all keys in turn, this many in each transaction.
pub fn write(fixture: &Fixture, topic: &str, events: i64, per_transaction: i64) {
    let sql = "INSERT INTO public.outbox (topic, ordering_key, payload)
        SELECT $1, 'key-' || g % $3, to_json(g) FROM generate_series(1, $2::bigint) g";
    let mut client = fixture.client();
    for _ in 0..events / per_transaction {
        client.execute(sql, &[&topic, &per_transaction, &KEYS]).unwrap();
    }
}

/// Everything in the table, in the order of ids: the order of commits where one session writes.
pub fn expected(fixture: &Fixture) -> Expected {
    let mut expected = Expected::default();
    let sql = "SELECT topic, ordering_key, id FROM public.outbox ORDER BY id";
    for row in fixture.client().query(sql, &[]).unwrap() {
        let (topic, key): (&str, &str) = (row.get(0), row.get(1));
        expected.push(topic, key, row.get::<_, i64>(2));
    }
    expected
}

pub fn read_all(fixture: &Fixture, expected: &Expected) -> Vec<Received> {
    let consumer = fixture.consumer();
    let mut records = consumer.read_n(expected.len(), SOON);
    records.extend(consumer.drain_quiet(QUIET));
    records
}
