//! Rows and messages, mixed: the order of commits, and of statements inside a transaction.

use std::io::Write;
use std::sync::Mutex;

use postgres::Transaction;

use super::{SOON, emit_batch, fixture};
use testkit::check::Expected;

/// Writes an event of a key and returns its id: a row, or a message.
#[track_caller]
pub fn write(transaction: &mut Transaction<'_>, topic: &str, key: &str, row: bool) -> String {
    let sql = if row {
        "INSERT INTO outbox (topic, payload, ordering_key) VALUES ($1, '{}', $2) RETURNING id::text"
    } else {
        "SELECT postrider.emit($1, '{}', ordering_key => $2)"
    };
    transaction.query_one(sql, &[&topic, &key]).unwrap().get(0)
}

#[test]
fn statements_keep_their_order_inside_a_transaction() {
    let mut fixture = fixture("message_statements");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut client = fixture.client();
    let mut expected = Vec::new();
    let mut transaction = client.transaction().unwrap();
    for number in 0..60 {
        let mut savepoint = transaction.transaction().unwrap();
        let id = write(&mut savepoint, &topic, "k", number % 3 == 0);
        if number % 5 == 1 {
            savepoint.rollback().unwrap();
        } else {
            savepoint.commit().unwrap();
            expected.push(id);
        }
        if number % 4 == 0 {
            expected.push(write(&mut transaction, &topic, "k", number % 8 == 0));
        }
        // Some of these batches become several messages.
        if number % 7 == 0 {
            let mut savepoint = transaction.transaction().unwrap();
            expected.extend(emit_batch(&mut savepoint, &topic, "k", 1 + number * 20));
            savepoint.commit().unwrap();
        }
        if number % 6 == 0 {
            expected.extend(emit_batch(&mut transaction, &topic, "k", 1 + number));
        }
    }
    transaction.commit().unwrap();
    let mut lost = client.transaction().unwrap();
    write(&mut lost, &topic, "k", true);
    write(&mut lost, &topic, "k", false);
    lost.rollback().unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    let ids: Vec<&str> = records.iter().map(|record| record.id()).collect();
    assert_eq!(ids, expected);
}

#[test]
fn rows_of_a_copy_follow_the_message_written_before_them() {
    let mut fixture = fixture("message_copy");
    let topic = fixture.create_topic("orders", 1, &[]);
    let mut client = fixture.client();
    let mut expected = Vec::new();
    let mut transaction = client.transaction().unwrap();
    for number in 0..20 {
        expected.push(format!("message {number}"));
        let emit = "SELECT postrider.emit($1, '{}', $2, ordering_key => 'k')";
        transaction.execute(emit, &[&topic, expected.last().unwrap()]).unwrap();
        // In a savepoint, and all in one WAL record.
        let mut savepoint = transaction.transaction().unwrap();
        let copy = "COPY outbox (topic, payload, idempotency_key, ordering_key) FROM STDIN";
        let mut writer = savepoint.copy_in(copy).unwrap();
        for row in 0..3 {
            expected.push(format!("row {number}-{row}"));
            writeln!(writer, "{topic}\t{{}}\t{}\tk", expected.last().unwrap()).unwrap();
        }
        writer.finish().unwrap();
        savepoint.commit().unwrap();
    }
    transaction.commit().unwrap();
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(expected.len(), SOON);
    let keys: Vec<_> = records.iter().filter_map(|it| it.header("idempotency-key")).collect();
    assert_eq!(keys, expected);
}

#[test]
fn commits_keep_their_order_whatever_was_written_first() {
    let mut fixture = fixture("message_commits");
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let expected = Mutex::new(Expected::default());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (fixture, topic, expected) = (&fixture, &topic, &expected);
            let mut client = fixture.client();
            scope.spawn(move || {
                for number in 0..100 {
                    let mut transaction = client.transaction().unwrap();
                    let count = 1 + (number + writer) % 7;
                    let keys: Vec<String> = (0..count).map(|it| format!("k{}", it % 3)).collect();
                    let ids: Vec<String> = (0..count)
                        .map(|it| {
                            let row = (it + number) % 2 == 0;
                            write(&mut transaction, topic, &keys[it], row)
                        })
                        .collect();
                    if number % 9 == 0 {
                        transaction.rollback().unwrap();
                        continue;
                    }
                    // Commits one at a time, so that their order is known while their writes are
                    // interleaved.
                    let mut expected = expected.lock().unwrap();
                    transaction.commit().unwrap();
                    for (key, id) in keys.iter().zip(ids) {
                        expected.push(topic, key, id);
                    }
                }
            });
        }
    });
    let expected = expected.into_inner().unwrap();
    let records = fixture.consumer().read_n(expected.len(), SOON);
    expected.verdict(&records).assert_exact();
}
