//! A large transaction, written in ways that look different in the log.

use std::io::Write;

use postgres::Transaction;

use crate::messages::{emit_batch, order};
use testkit::check::Expected;
use testkit::fixture::Fixture;

const KEYS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Many rows at one position.
    Copy,
    Inserts,
    /// Rows of subtransactions, some of them rolled back.
    Savepoints,
    /// Rows, messages and packs of them, with and without savepoints.
    Mixed,
}

pub struct Written {
    pub expected: Expected,
    /// A position inside the large transaction, after its last event.
    pub before_commit: String,
}

/// Writes one large transaction of about this many events, and a small one.
#[track_caller]
pub fn write(fixture: &Fixture, topic: &str, kind: Kind, events: usize) -> Written {
    let mut client = fixture.client();
    let mut transaction = client.transaction().unwrap();
    let mut ids = match kind {
        Kind::Copy => copy(&mut transaction, topic, events),
        Kind::Inserts => insert(&mut transaction, topic, events),
        Kind::Savepoints => savepoints(&mut transaction, topic, events),
        Kind::Mixed => mixed(&mut transaction, topic, events),
    };
    let sql = "SELECT pg_current_wal_insert_lsn()::text";
    let before_commit = transaction.query_one(sql, &[]).unwrap().get(0);
    transaction.commit().unwrap();
    let mut transaction = client.transaction().unwrap();
    ids.extend(insert(&mut transaction, topic, 10));
    transaction.commit().unwrap();
    let mut expected = Expected::default();
    for (key, id) in ids {
        expected.push(topic, &key, id);
    }
    Written { expected, before_commit }
}

type Ids = Vec<(String, String)>;

fn key(number: usize) -> String {
    format!("k{}", number % KEYS)
}

/// The rows written since the last id, in their order.
fn rows_after(transaction: &mut Transaction<'_>, id: i64) -> Ids {
    let sql = "SELECT ordering_key, id::text FROM outbox WHERE id > $1 ORDER BY outbox.id";
    let rows = transaction.query(sql, &[&id]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn last_id(transaction: &mut Transaction<'_>) -> i64 {
    transaction.query_one("SELECT coalesce(max(id), 0) FROM outbox", &[]).unwrap().get(0)
}

fn copy(transaction: &mut Transaction<'_>, topic: &str, events: usize) -> Ids {
    let last = last_id(transaction);
    let sql = "COPY outbox (topic, ordering_key, payload) FROM STDIN";
    let mut writer = transaction.copy_in(sql).unwrap();
    for number in 0..events {
        writeln!(writer, "{topic}\t{}\t{{\"n\":{number}}}", key(number)).unwrap();
    }
    writer.finish().unwrap();
    rows_after(transaction, last)
}

fn insert(transaction: &mut Transaction<'_>, topic: &str, events: usize) -> Ids {
    let last = last_id(transaction);
    let sql = "INSERT INTO outbox (topic, ordering_key, payload)
        SELECT $1, 'k' || n % $2::bigint, json_build_object('n', n)
          FROM generate_series(0, $3::bigint - 1) n ORDER BY n";
    let (keys, events) = (i64::try_from(KEYS).unwrap(), i64::try_from(events).unwrap());
    transaction.execute(sql, &[&topic, &keys, &events]).unwrap();
    rows_after(transaction, last)
}

fn savepoints(transaction: &mut Transaction<'_>, topic: &str, events: usize) -> Ids {
    const ROWS: usize = 60;
    let mut ids = Ids::new();
    while ids.len() < events {
        ids.extend(insert(transaction, topic, 1));
        let mut outer = transaction.transaction().unwrap();
        let mut written = insert(&mut outer, topic, ROWS);
        let mut inner = outer.transaction().unwrap();
        let copied = copy(&mut inner, topic, ROWS);
        match ids.len() % 3 {
            0 => inner.rollback().unwrap(),
            _ => {
                inner.commit().unwrap();
                written.extend(copied);
            }
        }
        written.extend(insert(&mut outer, topic, 1));
        match ids.len() % 5 {
            0 => outer.rollback().unwrap(),
            _ => {
                outer.commit().unwrap();
                ids.extend(written);
            }
        }
    }
    ids
}

fn mixed(transaction: &mut Transaction<'_>, topic: &str, events: usize) -> Ids {
    let mut ids = Ids::new();
    let mut round = 0;
    while ids.len() < events {
        round += 1;
        let mut savepoint = transaction.transaction().unwrap();
        for number in 0..6 {
            let mut inner = savepoint.transaction().unwrap();
            let key = key(round + number);
            let id = order::write(&mut inner, topic, &key, number % 2 == 0);
            inner.commit().unwrap();
            ids.push((key, id));
        }
        savepoint.commit().unwrap();
        let key = key(round);
        let id = order::write(transaction, topic, &key, false);
        ids.push((key.clone(), id));
        let packed = emit_batch(transaction, topic, &key, 300);
        ids.extend(packed.into_iter().map(|id| (key.clone(), id)));
        if round % 3 == 0 {
            ids.extend(copy(transaction, topic, 100));
        }
    }
    ids
}
