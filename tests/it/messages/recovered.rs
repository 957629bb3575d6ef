//! `postrider recover` with events that are only in the slot.

use std::collections::HashSet;
use std::process::{Output, Stdio};

use super::{SOON, emit, fixture};
use crate::harness::slot::confirmed_lsn;
use crate::harness::slot::wait_confirmed;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const ROW: &str = "INSERT INTO outbox (topic, payload) VALUES ($1, '{}')";

/// Runs a relay that publishes a row and a message, and stops it.
#[track_caller]
fn stopped(name: &str) -> (Fixture, String) {
    let mut fixture = fixture(name);
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    fixture.client().execute(ROW, &[&topic]).unwrap();
    emit(&fixture, &topic, None);
    fixture.consumer().read_n(2, SOON);
    wait_confirmed(&fixture);
    // The server shows that only after it has logged the running transactions.
    wait_until("the slot to be past the creation of its publication", SOON, || {
        let mut client = fixture.client();
        client.batch_execute("CHECKPOINT").unwrap();
        let sql = "SELECT age(p.xmin) > age(s.catalog_xmin) FROM pg_replication_slots s,
            pg_publication p WHERE s.slot_name = $1";
        client.query_one(sql, &[&fixture.slot()]).unwrap().get(0)
    });
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success(), "{}", fixture.relay().log());
    (fixture, topic)
}

fn text(output: &Output) -> String {
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

fn alter(fixture: &Fixture, how: &str) {
    fixture.client().batch_execute(&format!("ALTER PUBLICATION postrider {how}")).unwrap();
}

/// Starts the relay and waits until all rows of the table and these messages are published.
#[track_caller]
fn assert_published(fixture: &mut Fixture, messages: &[String]) {
    let sql = "SELECT id::text FROM outbox";
    let rows = fixture.client().query(sql, &[]).unwrap();
    let mut missing: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
    missing.extend(messages.iter().cloned());
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    while !missing.is_empty() {
        for record in consumer.read_n(1, SOON) {
            missing.remove(record.id());
        }
    }
}

#[test]
fn messages_survive_the_recovery_of_a_lapse() {
    let (mut fixture, topic) = stopped("message_lapse");
    let mut messages = vec![emit(&fixture, &topic, None)];
    // One transaction stays open from before the lapse until the recovery runs.
    let mut writer = fixture.client();
    let mut open = writer.transaction().unwrap();
    open.execute(ROW, &[&topic]).unwrap();
    let sql = "SELECT postrider.emit($1, '{}')";
    messages.push(open.query_one(sql, &[&topic]).unwrap().get(0));
    alter(&fixture, "DROP TABLE outbox");
    fixture.client().execute(ROW, &[&topic]).unwrap();
    messages.push(emit(&fixture, &topic, None));
    alter(&fixture, "ADD TABLE outbox");
    messages.push(emit(&fixture, &topic, None));
    let stood_at = confirmed_lsn(&fixture);
    let mut recovering = fixture.command(&["recover"]).spawn().unwrap();
    wait_until("the recovery to begin", SOON, || {
        let sql = "SELECT count(*) = 1 FROM postrider.backfill";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    messages.push(open.query_one(sql, &[&topic]).unwrap().get(0));
    open.commit().unwrap();
    assert!(recovering.wait().unwrap().success());
    assert_eq!(confirmed_lsn(&fixture), stood_at, "the slot was not kept");
    assert_published(&mut fixture, &messages);
}

#[test]
fn messages_survive_the_recovery_of_a_slot_that_was_moved() {
    let (mut fixture, topic) = stopped("message_ahead");
    fixture.client().execute(ROW, &[&topic]).unwrap();
    emit(&fixture, &topic, None);
    let advance = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
    fixture.client().execute(advance, &[&fixture.slot()]).unwrap();
    let messages = [emit(&fixture, &topic, None)];
    let output = fixture.run(&["recover", "--dry-run"]);
    assert!(text(&output).contains("the slot stays"), "{}", text(&output));
    // The first message is lost, and that is reported.
    assert!(text(&output).contains("not published are lost"), "{}", text(&output));
    let output = fixture.run(&["recover"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("kept the slot"), "{}", text(&output));
    assert_published(&mut fixture, &messages);
}

#[test]
fn messages_written_during_a_recovery_survive_its_end() {
    let (mut fixture, topic) = stopped("message_recovering");
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    let mut writer = fixture.client();
    let mut open = writer.transaction().unwrap();
    for _ in 0..3 {
        fixture.client().execute(ROW, &[&topic]).unwrap();
        open.execute(ROW, &[&topic]).unwrap();
    }
    crate::backfill::slow_down(&mut fixture);
    let mut recovering = fixture.command(&["recover"]).stdout(Stdio::null()).spawn().unwrap();
    let keeps_slot = || {
        let sql = "SELECT keeps_slot FROM postrider.backfill";
        let row = fixture.client().query_opt(sql, &[]).unwrap();
        row.map(|row| row.get::<_, bool>(0))
    };
    wait_until("the recovery to begin", SOON, || keeps_slot().is_some());
    // The recovery waits for the open transaction, and there is no slot.
    for call in ["emit($1, '{}')", "emit_batch(ARRAY[$1], '{1}')"] {
        let sql = format!("SELECT postrider.{call}");
        let error = fixture.client().query(&sql, &[&topic]).expect_err(call);
        assert!(format!("{error:?}").contains("can't be written now"), "{error:?}");
    }
    open.commit().unwrap();
    wait_until("the slot", SOON, || keeps_slot() == Some(true));
    let messages = [emit(&fixture, &topic, None)];
    recovering.kill().unwrap();
    recovering.wait().unwrap();
    assert_eq!(keeps_slot(), Some(true), "the recovery has ended");
    assert_published(&mut fixture, &messages);
}

#[test]
fn unreadable_messages_are_given_up_only_on_request() {
    let (mut fixture, topic) = stopped("message_unread");
    emit(&fixture, &topic, None);
    fixture.client().batch_execute("DROP PUBLICATION postrider").unwrap();
    // A change that the server can't decode: there was no publication.
    fixture.client().execute(ROW, &[&topic]).unwrap();
    let again = "CREATE PUBLICATION postrider FOR TABLE outbox
        WITH (publish = 'insert', publish_via_partition_root = true)";
    fixture.client().batch_execute(again).unwrap();
    let stood_at = confirmed_lsn(&fixture);
    let output = fixture.run(&["recover"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("--give-up-messages"), "{}", text(&output));
    assert_eq!(confirmed_lsn(&fixture), stood_at, "the slot was touched");
    let output = fixture.run(&["recover", "--give-up-messages"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("are lost with the slot"), "{}", text(&output));
    assert_ne!(confirmed_lsn(&fixture), stood_at);
    assert_published(&mut fixture, &[]);
}

/// Such rows are identified only by their position in the side table, and the slot is kept.
#[test]
fn rows_without_ids_parked_by_two_recoveries_are_all_kept() {
    let (fixture, _) = stopped("message_parked");
    let missing = fixture.topic("missing");
    let mut client = fixture.client();
    client
        .batch_execute(
            "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey,
        ALTER COLUMN id DROP IDENTITY, ALTER COLUMN id DROP NOT NULL",
        )
        .unwrap();
    let sql = "INSERT INTO outbox (topic, payload, ordering_key) SELECT $1, to_json(n), 'k'
        FROM generate_series(1, 3) n";
    let stood_at = confirmed_lsn(&fixture);
    for recovery in 1..=2 {
        alter(&fixture, "DROP TABLE outbox");
        client.execute(sql, &[&missing]).unwrap();
        alter(&fixture, "ADD TABLE outbox");
        let output = fixture.run(&["recover"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert_eq!(confirmed_lsn(&fixture), stood_at, "the slot was not kept");
        let parked = "SELECT string_agg(convert_from(value, 'UTF8'), ''
                ORDER BY commit_lsn, change_lsn, ordinal) FROM postrider.undelivered";
        let parked: String = client.query_one(parked, &[]).unwrap().get(0);
        assert_eq!(parked, "123".repeat(recovery), "{}", text(&output));
    }
}
