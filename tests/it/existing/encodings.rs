//! Databases in other encodings than UTF-8.

use super::{BINARY, SOON, publish, values, write};
use crate::harness::halt::{assert_one_sentence_and_its_fix, wait_halt};
use testkit::fixture::Fixture;
use testkit::shared;
use testkit::wait::wait_until;

/// A database in this encoding with two outboxes; the second has a type that is sent as text.
#[track_caller]
fn encoded(encoding: &str) -> Fixture {
    let (postgres, broker) = shared::pair();
    let name = encoding.to_lowercase();
    let mut fixture = Fixture::unmigrated(BINARY, &name, &postgres.address(), &broker);
    let database = fixture.database();
    let mut admin = fixture.postgres().client("postgres");
    admin.batch_execute(&format!("drop database \"{database}\"")).unwrap();
    admin
        .batch_execute(&format!(
            "create database \"{database}\" template template0 encoding '{encoding}'
                lc_collate 'C' lc_ctype 'C'"
        ))
        .unwrap();
    let sql = "create type mood as enum ('fine');
        create table outbox (topic text, payload json, ordering_key text, headers jsonb);
        create table typed (topic text, payload bytea, ordering_key text, type mood)";
    fixture.client().batch_execute(sql).unwrap();
    fixture.set("POSTRIDER_TABLES", "outbox");
    fixture.migrate();
    fixture
}

fn restart_with_tables(fixture: &mut Fixture, tables: &str) {
    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    fixture.set("POSTRIDER_TABLES", tables);
    fixture.migrate();
}

/// Text arrives as UTF-8, bytes arrive unchanged: in binary form, then in text form.
#[track_caller]
fn check(encoding: &str, text: &str) {
    let mut fixture = encoded(encoding);
    let rows = format!(
        r#"insert into outbox values ('TOPIC', '"{text}"', '{text}', '{{"{text}": "{text}"}}')"#
    );
    let first = publish(&mut fixture, &rows, 1);
    restart_with_tables(&mut fixture, "outbox,typed");
    let topic = fixture.topic("orders");
    let bytes = format!(r"insert into typed values ('TOPIC', '\x80ff', '{text}', 'fine')");
    write(&fixture, &topic, &format!("{rows}; {bytes}"));
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(3, SOON);
    assert_eq!(records[0].value, first[0].value);
    for record in &records[..2] {
        assert_eq!(record.value_text(), Some(format!("\"{text}\"").as_str()), "{encoding}");
        assert_eq!(record.header(text), Some(text), "{encoding}");
    }
    assert_eq!(records[2].value.as_deref(), Some(&b"\x80\xff"[..]));
    assert!(records.iter().all(|record| record.key_text() == Some(text)), "{encoding}");
}

#[test]
fn text_of_a_latin1_database_is_published_as_utf_8() {
    check("LATIN1", "größer");
}

#[test]
fn text_of_a_win1252_database_is_published_as_utf_8() {
    check("WIN1252", "5 € größer");
}

#[test]
fn text_of_a_euc_jp_database_is_published_as_utf_8() {
    check("EUC_JP", "注文 確定");
}

// Not an encoding: bytes stay as they are.
#[test]
fn text_of_a_sql_ascii_database_is_published_unchanged() {
    check("SQL_ASCII", "größer 注文");
}

#[test]
fn sql_ascii_bytes_are_refused_only_where_text_is_required() {
    let mut fixture = encoded("SQL_ASCII");
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "halt");
    let payload = r"insert into outbox (topic, payload) values
        ('TOPIC', convert_from('\x22f622', 'SQL_ASCII')::json)";
    let records = publish(&mut fixture, payload, 1);
    assert_eq!(records[0].value.as_deref(), Some(&b"\"\xf6\""[..]));
    let key = r"insert into outbox (topic, payload, ordering_key) values
        ('TOPIC', '1', convert_from('\xf6', 'SQL_ASCII'))";
    write(&fixture, &fixture.topic("orders"), key);
    let log = wait_halt(&mut fixture);
    assert!(log.contains("column \"ordering_key\" is not UTF-8 text"), "{log}");
}

/// While the row exists, its table can't be read either.
#[track_caller]
fn assert_recover_halts(fixture: &Fixture) {
    let output = fixture.run(&["recover"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("22P05") && errors.contains("rows of public.outbox"), "{errors}");
    assert_one_sentence_and_its_fix(&errors);
}

// The server can't convert it to UTF-8, and would fail at every start.
#[test]
fn text_without_a_utf_8_equivalent_needs_an_operator() {
    let mut fixture = encoded("WIN1252");
    let records = publish(&mut fixture, "insert into outbox values ('TOPIC', '1')", 1);
    assert_eq!(values(&records), ["1"]);
    let undefined = "insert into outbox values ('TOPIC', ('\"' || chr(129) || '\"')::json)";
    write(&fixture, &fixture.topic("orders"), undefined);
    let log = wait_halt(&mut fixture);
    assert!(log.contains("22P05"), "{log}");
    // The fix from the message is applied.
    assert!(log.contains("pg_drop_replication_slot"), "{log}");
    write(&fixture, &fixture.topic("orders"), "insert into outbox values ('TOPIC', '2')");
    wait_until("the slot is free", SOON, || fixture.slot_holder().is_none());
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    assert_recover_halts(&fixture);
    let delete = "delete from outbox where payload::text like '%' || chr(129) || '%'";
    fixture.client().batch_execute(delete).unwrap();
    let output = fixture.run(&["recover"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The relay may have halted before the first acknowledgement arrived.
    let records = fixture.consumer().read_until(SOON, |records| values(records).contains(&"2"));
    let mut values = values(&records);
    values.dedup();
    assert_eq!(values, ["1", "2"]);
}

// JSON escapes can name characters that the database cannot encode; the side table must accept them
// too.
#[test]
fn an_event_whose_headers_the_database_cannot_encode_is_parked() {
    let mut fixture = encoded("LATIN1");
    let sql = "create table letters (topic text, payload json, partition int, headers json)";
    fixture.client().batch_execute(sql).unwrap();
    fixture.set("POSTRIDER_TABLES", "letters");
    fixture.set("POSTRIDER_UNDELIVERED_POLL_INTERVAL", "200ms");
    fixture.set("POSTRIDER_UNDELIVERED_BACKOFF_MAX", "1s");
    fixture.migrate();
    let rows = r#"insert into letters values
        ('TOPIC', '1', 7, '{"\u4e2d": "gr\u00f6\u00dfer \ud83d\ude00"}'), ('TOPIC', '2', 0, null)"#;
    let records = publish(&mut fixture, rows, 1);
    assert_eq!(values(&records), ["2"]);
    wait_until("the other to be parked", SOON, || {
        let sql = "select count(*) from postrider.undelivered where reason = 'partition-missing'";
        fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
    });
    let sql = "update postrider.undelivered set partition = 0, next_attempt_at = now()";
    fixture.client().batch_execute(sql).unwrap();
    let records = fixture.consumer().read_n(2, SOON);
    assert_eq!(records[1].header("中"), Some("größer 😀"));
}
