//! The configuration that decides which rows are events has changed: the transaction is read from
//! its beginning.

use super::writer::Kind;
use super::{LIMIT, LINGER, Rig, SOON, prepare};
use crate::harness::rig::{read, wait_caught_up};

/// Ten events of a table that joins the configuration later, among those of the outbox.
#[track_caller]
fn with_second_table(name: &'static str) -> (Rig, Vec<String>) {
    let mut rig = prepare(name, Kind::Inserts, 10);
    let mut client = rig.fixture.client();
    let sql = "CREATE TABLE other (LIKE outbox INCLUDING ALL);
        ALTER PUBLICATION postrider ADD TABLE other";
    client.batch_execute(sql).unwrap();
    let mut transaction = client.transaction().unwrap();
    let sql = "INSERT INTO other (id, topic, payload) OVERRIDING SYSTEM VALUE
        SELECT 1000000 + n, $1, '{}' FROM generate_series(1, 10) n RETURNING id::text";
    let rows = transaction.query(sql, &[&rig.topic]).unwrap();
    let written = "INSERT INTO outbox (topic, ordering_key, payload)
        SELECT $1, 'k', '{}' FROM generate_series(1, 20000) n RETURNING id::text";
    let more = transaction.query(written, &[&rig.topic]).unwrap();
    let sql = "SELECT pg_current_wal_insert_lsn()::text";
    rig.written.before_commit = transaction.query_one(sql, &[]).unwrap().get(0);
    transaction.commit().unwrap();
    for row in more {
        rig.written.expected.push(&rig.topic, "k", row.get::<_, String>(0));
    }
    (rig, rows.iter().map(|row| row.get(0)).collect())
}

/// Its rows are before the stored position: continuing there would lose them.
#[test]
fn a_table_was_added() {
    let (mut rig, other) = with_second_table("inside_table");
    rig.publish_some(3_000);
    rig.stop();
    rig.assert_inside();
    rig.fixture.set("POSTRIDER_POSTGRES_TABLES", "public.outbox,public.other");
    for id in other {
        rig.written.expected.push_unordered(&rig.topic, id);
    }
    rig.start_fast();
    rig.judge(20_000);
}

/// Messages that were not published before are now events.
#[test]
fn messages_were_turned_on() {
    let mut rig = prepare("inside_messages", Kind::Mixed, 30_000);
    rig.fixture.unset("POSTRIDER_POSTGRES_MESSAGES");
    let withdrawn = rig.fixture.run(&["migrate", "--withdraw", "messages"]);
    assert!(withdrawn.status.success(), "{withdrawn:?}");
    rig.publish_some(1_000);
    rig.stop();
    rig.assert_inside();
    rig.fixture.set("POSTRIDER_POSTGRES_MESSAGES", "true");
    rig.start_fast();
    wait_caught_up(&mut rig.fixture);
    // They come after rows that were published without them.
    let verdict = read(rig.fixture.broker(), &rig.topic, rig.written.expected);
    assert_eq!((verdict.lost.count, verdict.unexpected.count), (0, 0), "{verdict}");
}

/// It is unknown what a changed publication would have sent: the relay stops, and what `recover`
/// leaves in the slot is read from the beginning of its transaction.
#[test]
fn the_publication_was_replaced() {
    let mut rig = prepare("inside_publication", Kind::Inserts, 20_000);
    rig.publish_some(3_000);
    rig.stop();
    rig.assert_inside();
    let owner = format!("{}_owner", rig.fixture.slot());
    let sql = format!("CREATE ROLE {owner}; ALTER PUBLICATION postrider OWNER TO {owner}");
    rig.fixture.client().batch_execute(&sql).unwrap();
    rig.fixture.start_relay();
    assert_eq!(rig.fixture.relay().wait_exit(SOON).code(), Some(3));
    rig.fixture.unset(LIMIT).unset(LINGER);
    let recovered = rig.fixture.run(&["recover"]);
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    rig.start_fast();
    rig.judge(40_000);
}

/// A position stored with another server version or another way of counting is not used.
#[test]
fn a_position_stored_with_another_way_of_counting_is_not_used() {
    let mut rig = prepare("inside_counting", Kind::Copy, 20_000);
    rig.publish_some(3_000);
    rig.stop();
    rig.assert_inside();
    let sql = "UPDATE postrider.progress
        SET inside_change_lsn = 'FFFFFFFF/0', inside_depends_on = gen_random_uuid()";
    rig.fixture.client().batch_execute(sql).unwrap();
    rig.publish_some(3_000);
    rig.stop();
    // It has stored its own position, although that is before the one that it ignored.
    let sql = "SELECT inside_change_lsn < 'FFFFFFFF/0' FROM postrider.progress";
    assert!(rig.fixture.client().query_one(sql, &[]).unwrap().get::<_, bool>(0));
    rig.start_fast();
    rig.judge(20_000);
}
