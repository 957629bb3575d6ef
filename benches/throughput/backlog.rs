//! A backlog of committed events that waits for its readers.

use crate::servers::Servers;
use crate::{BINARY, PARTITION_COUNT};
use testkit::fixture::Fixture;

const WRITER_COUNT: usize = 4;

/// In the server, so that the network does not limit the writing. About 350 bytes on the wire.
const CREATE_FILL: &str = r#"
    CREATE PROCEDURE fill(topic text, first bigint, last bigint, rows_per_transaction bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
        filler CONSTANT text := rpad('', 170, 'abcdefghij');
    BEGIN
        WHILE first <= last LOOP
            INSERT INTO outbox (topic, ordering_key, type, tenant, payload)
            SELECT topic, 'customer-' || n % 10000, 'order.placed', 'tenant-' || n % 100,
                   ('{"order":' || n || ',"text":"' || filler || '"}')::json
            FROM generate_series(first, least(first + rows_per_transaction - 1, last)) n;
            COMMIT;
            first := first + rows_per_transaction;
        END LOOP;
    END $$"#;

/// The same events without a table, with one call per transaction.
const CREATE_FILL_BATCHES: &str = r#"
    CREATE PROCEDURE fill(topic text, first bigint, last bigint, rows_per_transaction bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
        filler CONSTANT text := rpad('', 170, 'abcdefghij');
    BEGIN
        WHILE first <= last LOOP
            PERFORM postrider.emit_batch(array_agg(topic),
                        array_agg(('{"order":' || n || ',"text":"' || filler || '"}')::json),
                        ordering_keys => array_agg('customer-' || n % 10000),
                        types => array_agg('order.placed'::text),
                        tenants => array_agg('tenant-' || n % 100))
            FROM generate_series(first, least(first + rows_per_transaction - 1, last)) n;
            COMMIT;
            first := first + rows_per_transaction;
        END LOOP;
    END $$"#;

/// The same events without a table, with one call per event.
const CREATE_FILL_MESSAGES: &str = r#"
    CREATE PROCEDURE fill(topic text, first bigint, last bigint, rows_per_transaction bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
        filler CONSTANT text := rpad('', 170, 'abcdefghij');
    BEGIN
        WHILE first <= last LOOP
            PERFORM postrider.emit(topic, ('{"order":' || n || ',"text":"' || filler || '"}')::json,
                        ordering_key => 'customer-' || n % 10000, type => 'order.placed',
                        tenant => 'tenant-' || n % 100)
            FROM generate_series(first, least(first + rows_per_transaction - 1, last)) n;
            COMMIT;
            first := first + rows_per_transaction;
        END LOOP;
    END $$"#;

/// How the events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rows,
    /// By `emit_batch`.
    Batches,
    /// By `emit`.
    Messages,
}

pub(crate) struct Backlog {
    pub(crate) fixture: Fixture,
    pub(crate) topic: String,
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    /// A position after the last event.
    pub(crate) end: String,
}

impl Backlog {
    /// Creates the named slots and writes the events once: these slots and the fixture's own all
    /// read the same WAL.
    pub(crate) fn write(
        servers: &Servers,
        kind: Kind,
        rows: usize,
        rows_per_transaction: usize,
        slots: &[String],
    ) -> Backlog {
        let address = servers.postgres.address();
        let mut fixture = Fixture::on(BINARY, "bench", &address, &servers.broker);
        // The broker should remove deleted records soon, not keep the disk busy later.
        let settings = [("file.delete.delay.ms", "1000")];
        let topic = fixture.create_topic("events", PARTITION_COUNT, &settings);
        create_slots(&fixture, slots);
        let create = match kind {
            Kind::Rows => CREATE_FILL,
            Kind::Batches => CREATE_FILL_BATCHES,
            Kind::Messages => CREATE_FILL_MESSAGES,
        };
        if kind != Kind::Rows {
            fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
            fixture.migrate();
        }
        fixture.client().batch_execute(create).unwrap();
        fill(&fixture, &format!("'{topic}'"), rows, rows_per_transaction);
        let end = finish(&fixture, if kind == Kind::Rows { rows } else { 0 });
        Backlog { fixture, topic, kind, rows, end }
    }
}

pub(crate) fn create_slots(fixture: &Fixture, slots: &[String]) {
    let mut client = fixture.client();
    for slot in slots {
        let sql = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
        client.execute(sql, &[slot]).expect("cannot create a slot");
    }
}

/// Checks what was written, and returns a position after it.
pub(crate) fn finish(fixture: &Fixture, rows: usize) -> String {
    let mut client = fixture.client();
    let count: i64 = client.query_one("SELECT count(*) FROM outbox", &[]).unwrap().get(0);
    assert_eq!(usize::try_from(count), Ok(rows), "not the backlog that was requested");
    let sql = "SELECT pg_current_wal_insert_lsn()::text";
    let end = client.query_one(sql, &[]).unwrap().get(0);
    // Flushes what asynchronous commits left, and adds a record after the end, so that
    // every reader passes it.
    client.batch_execute("CHECKPOINT").unwrap();
    end
}

/// Several writers call the procedure `fill`; it takes the given arguments, then the numbers of
/// the first and the last row and the rows per transaction.
pub(crate) fn fill(fixture: &Fixture, arguments: &str, rows: usize, rows_per_transaction: usize) {
    // Whole transactions for each writer but the last.
    let share = (rows / WRITER_COUNT).next_multiple_of(rows_per_transaction);
    std::thread::scope(|scope| {
        for writer in 0..WRITER_COUNT {
            let first = writer * share + 1;
            let last =
                if writer + 1 == WRITER_COUNT { rows } else { (first + share - 1).min(rows) };
            let call = format!("CALL fill({arguments}, {first}, {last}, {rows_per_transaction})");
            let mut client = fixture.client();
            scope.spawn(move || {
                client.batch_execute("SET synchronous_commit = off").unwrap();
                client.batch_execute(&call).expect("cannot write the backlog");
            });
        }
    });
}
