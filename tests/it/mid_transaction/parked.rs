//! Unpublishable events of a transaction: each is parked once, and none is skipped.

use super::writer::{Kind, Written};
use super::{REPEATED_BY_STOP_MAX, Rig, prepare};

const ROWS: i64 = 20_000;
const BAD_EVERY: i64 = 1_000;

/// Every thousandth event can't be published, and has no id that identifies it.
#[track_caller]
fn prepare_bad(name: &'static str) -> (Rig, i64) {
    let mut rig = prepare(name, Kind::Inserts, 1);
    let mut client = rig.fixture.client();
    let mut transaction = client.transaction().unwrap();
    let sql = "INSERT INTO outbox (topic, payload, headers)
        SELECT $1, '{}', CASE WHEN n % $2 = 0 THEN '[]' ELSE '{}' END::json
          FROM generate_series(1, $3::bigint) n ORDER BY n RETURNING id::text, headers::text";
    let rows = transaction.query(sql, &[&rig.topic, &BAD_EVERY, &ROWS]).unwrap();
    let sql = "SELECT pg_current_wal_insert_lsn()::text";
    let Written { expected, before_commit } = &mut rig.written;
    *before_commit = transaction.query_one(sql, &[]).unwrap().get(0);
    transaction.commit().unwrap();
    for row in rows.iter().filter(|row| row.get::<_, &str>(1) == "{}") {
        expected.push_unordered(&rig.topic, row.get::<_, String>(0));
    }
    (rig, ROWS / BAD_EVERY)
}

#[track_caller]
fn assert_parked_once(rig: &Rig, events: i64) {
    let sql = "SELECT count(*), count(DISTINCT row_id), count(DISTINCT (change_lsn, ordinal)),
            bool_and(status = 'dead' AND change_lsn > '0/0' AND ordinal = 0)
        FROM postrider.undelivered";
    let row = rig.fixture.client().query_one(sql, &[]).unwrap();
    let counts: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(counts, [events; 3]);
    assert!(row.get::<_, bool>(3));
}

#[test]
fn each_is_parked_once_when_the_relay_is_stopped_and_continues() {
    let (mut rig, bad) = prepare_bad("inside_parked");
    for _ in 0..3 {
        rig.publish_some(3_000);
        rig.stop();
        rig.assert_inside();
    }
    rig.start_fast();
    crate::harness::rig::wait_caught_up(&mut rig.fixture);
    assert_parked_once(&rig, bad);
    rig.judge(REPEATED_BY_STOP_MAX);
}

/// When the transaction is read from its beginning, parked events are found by position alone.
#[test]
fn each_is_parked_once_when_the_transaction_is_read_again() {
    let (mut rig, bad) = prepare_bad("inside_parked_again");
    for _ in 0..2 {
        rig.publish_some(3_000);
        rig.fixture.relay().kill9();
        rig.assert_inside();
        let forget = "UPDATE postrider.progress SET inside_commit_lsn = NULL";
        rig.fixture.client().batch_execute(forget).unwrap();
    }
    rig.start_fast();
    crate::harness::rig::wait_caught_up(&mut rig.fixture);
    assert_parked_once(&rig, bad);
    rig.judge(2 * usize::try_from(ROWS).unwrap());
}
