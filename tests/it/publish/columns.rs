//! Outbox tables created by users: types, names, and columns that are missing or unknown.

use super::{BINARY, SOON};
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::shared;

const UUID: &str = "6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f";

/// One table for each payload type, with ids of different types.
const TABLES: &str = "
    create table json_box (id uuid, topic text not null, payload json);
    create table jsonb_box (payload jsonb, id text, topic varchar(99) not null);
    create table text_box (id int, payload text, topic text not null);
    create table bytea_box (id smallint, topic text not null, payload bytea);";

const ROWS: &str = r#"
    insert into json_box values
        ('6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f', '{topic}', E' {"b" : 1,\n "a":1.0, "a":"\\u00e9"} ');
    insert into jsonb_box values (' {"b" : 1, "a":1.0, "a": 2.50}', 'text id', '{topic}');
    insert into text_box values (-7, E'größer \t"', '{topic}'), (8, '', '{topic}'),
        (9, null, '{topic}');
    insert into bytea_box values (-32768, '{topic}', '\x00ff5c780a'), (1, '{topic}', ''),
        (2, '{topic}', null);"#;

fn expected() -> Vec<(&'static str, Option<&'static [u8]>)> {
    vec![
        (UUID, Some(b" {\"b\" : 1,\n \"a\":1.0, \"a\":\"\\u00e9\"} ")),
        ("text id", Some(b"{\"a\": 2.50, \"b\": 1}")),
        ("-7", Some("größer \t\"".as_bytes())),
        ("8", Some(b"")),
        ("9", None),
        ("-32768", Some(b"\x00\xff\\x\n")),
        ("1", Some(b"")),
        ("2", None),
    ]
}

#[test]
fn payloads_and_ids_of_every_type_arrive_unchanged() {
    let mut fixture = with_tables("types", TABLES, "json_box,jsonb_box,text_box,bytea_box");
    let records = publish(&mut fixture, ROWS, expected().len());
    assert_eq!(ids_and_values(&records), expected());
}

#[test]
fn payloads_and_ids_arrive_unchanged_in_text_form_beside_a_user_defined_type() {
    let tables = format!(
        "create type kind as enum ('order.created', 'order.paid');
         create domain topic_name as text check (value <> '');
         create table typed_box (topic topic_name not null, type kind, payload json);
         {TABLES}"
    );
    let rows = format!(
        "{ROWS} insert into typed_box values ('{{topic}}', 'order.paid', '[1,  2]'),
                                             ('{{topic}}', null, '[3]')"
    );
    let names = "json_box,jsonb_box,text_box,bytea_box,typed_box";
    let mut fixture = with_tables("user_types", &tables, names);
    let records = publish(&mut fixture, &rows, expected().len() + 2);
    let (known, typed) = records.split_at(expected().len());
    assert_eq!(ids_and_values(known), expected());
    assert_eq!(typed[0].value_text(), Some("[1,  2]"));
    assert_eq!(typed[0].header("type"), Some("order.paid"));
    assert_eq!(typed[1].header("type"), None);
}

#[test]
fn a_table_needs_only_topic_and_payload() {
    let table = "create table small (payload json, topic text)";
    let mut fixture = with_tables("small", table, "small");
    let rows = "insert into small (topic, payload) values ('{topic}', '{}')";
    let records = publish(&mut fixture, rows, 1);
    assert_eq!(records[0].key, None);
    assert_eq!(records[0].headers, []);
    assert_eq!(records[0].value_text(), Some("{}"));
}

#[test]
fn quoted_names_and_unknown_columns_are_supported() {
    let table = r#"
        create schema "Odd Schema";
        create type mood as enum ('fine');
        create table "Odd Schema"."Out, ""Box" (
            "Topic" text, mood mood, at timestamptz default now(), topic text not null, area point,
            "payload " text, payload json, ordering_key varchar(20), numbers int[]);"#;
    let name = r#""Odd Schema"."Out, ""Box""#;
    let mut fixture = with_tables("quoted", table, name);
    let rows = r#"insert into "Odd Schema"."Out, ""Box" values ('wrong', 'fine', now(), '{topic}',
        '(1,2)', 'wrong', '"right"', 'key', '{1,2}')"#;
    let records = publish(&mut fixture, rows, 1);
    assert_eq!(records[0].value_text(), Some("\"right\""));
    assert_eq!(records[0].key_text(), Some("key"));
    assert_eq!(records[0].headers, []);
}

#[test]
fn several_outboxes_share_slot_and_publication() {
    let (postgres, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "several", &postgres.address(), &broker);
    fixture.set("POSTRIDER_TABLES", "billing.outbox, public.outbox");
    fixture.migrate();
    // One transaction over both keeps its order where both write to one partition.
    let rows = "begin;
        insert into billing.outbox (topic, idempotency_key, payload) values ('{topic}', 'a', '1');
        insert into outbox (topic, idempotency_key, payload) values ('{topic}', 'b', '2');
        insert into billing.outbox (topic, idempotency_key, payload) values ('{topic}', 'c', '3');
        commit";
    let records = publish(&mut fixture, rows, 3);
    let values: Vec<_> = records.iter().map(Received::value_text).collect();
    assert_eq!(values, [Some("1"), Some("2"), Some("3")]);
}

#[track_caller]
fn with_tables(name: &str, sql: &str, tables: &str) -> Fixture {
    let (postgres, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, name, &postgres.address(), &broker);
    fixture.client().batch_execute(sql).unwrap();
    fixture.set("POSTRIDER_TABLES", tables);
    fixture.migrate();
    fixture
}

/// Publishes through one partition, where all rows keep their order.
#[track_caller]
fn publish(fixture: &mut Fixture, rows: &str, count: usize) -> Vec<Received> {
    let topic = fixture.create_topic("orders", 1, &[]);
    let sql = rows.replace("{topic}", &topic);
    fixture.client().batch_execute(&sql).unwrap();
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(count, SOON)
}

fn ids_and_values(records: &[Received]) -> Vec<(&str, Option<&[u8]>)> {
    records.iter().map(|it| (it.id(), it.value.as_deref())).collect()
}
