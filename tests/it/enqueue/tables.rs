//! Outbox tables of all kinds: fewer columns, other types, partitions.

use super::{BINARY, number, refused, text};
use testkit::fixture::Fixture;

const ALL: &str =
    "idempotency_key => 'k', ordering_key => 'o', tenant => 't', headers => '{\"h\": 1}',
    traceparent => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', type => 'y',
    content_type => 'c', \"partition\" => 3, outbox => 'own'";

#[track_caller]
fn with_table(name: &str, columns: &str) -> (Fixture, postgres::Client) {
    let fixture = Fixture::new(BINARY, name);
    let mut client = fixture.client();
    client.batch_execute(&format!("CREATE TABLE own ({columns})")).unwrap();
    (fixture, client)
}

#[test]
fn two_columns_are_enough() {
    let (_fixture, mut client) = with_table("two_columns", "payload json, topic text");
    let sql = "SELECT count(*) FROM (SELECT postrider.enqueue('t', '1', outbox => 'own') AS id) x WHERE id IS NULL";
    assert_eq!(number(&mut client, sql), 1);
    let sql = "SELECT cardinality(postrider.enqueue_batch('own', '{t,t}', '{1,2}'))::bigint";
    assert_eq!(number(&mut client, sql), 2);
    assert_eq!(number(&mut client, "SELECT count(*) FROM own"), 3);
    for (argument, column) in [
        ("idempotency_key => 'k'", "idempotency_key"),
        ("ordering_key => 'o'", "ordering_key"),
        ("tenant => 't'", "tenant"),
        ("headers => '{}'", "headers"),
        ("type => 't'", "type"),
        ("content_type => 't'", "content_type"),
        ("\"partition\" => 1", "partition"),
    ] {
        let sql = format!("SELECT postrider.enqueue('t', '1', outbox => 'own', {argument})");
        let message = refused(&mut client, &sql, "42703");
        assert!(message.contains(&format!("table own has no column {column}")), "{message}");
    }
}

#[test]
fn a_table_can_have_any_name() {
    let fixture = Fixture::new(BINARY, "names");
    let mut client = fixture.client();
    let table = "CREATE SCHEMA \"100 %s\"; CREATE TABLE \"100 %s\".\"it's %I $1\" (LIKE outbox INCLUDING ALL)";
    client.batch_execute(table).unwrap();
    let outbox = "'\"100 %s\".\"it''s %I $1\"'";
    let first =
        text(&mut client, &format!("SELECT postrider.enqueue('t', '1', 'k', outbox => {outbox})"));
    let sql =
        format!("SELECT (postrider.enqueue_batch({outbox}, '{{t,t}}', '{{1,2}}', '{{l,k}}'))[2]");
    assert_eq!(text(&mut client, &sql), first);
    client.batch_execute(&format!("SELECT postrider.require_tenant_keys({outbox})")).unwrap();
}

#[test]
fn columns_with_other_names_need_a_mapping() {
    let (_fixture, mut client) = with_table("mapped", "destination text, payload json");
    for sql in [
        "SELECT postrider.enqueue('t', '1', outbox => 'own')",
        "SELECT postrider.enqueue_batch('own', '{t}', '{1}')",
    ] {
        let message = refused(&mut client, sql, "42703");
        assert!(message.contains("table own has no column topic"), "{message}");
        let fix = "list the table in postgres.tables, set postgres.columns (topic = \"...\")";
        assert!(message.contains(fix), "{message}");
    }
}

#[test]
fn payloads_are_converted_to_the_type_of_the_column() {
    for (kind, json, bytes) in [
        ("json", "{\"b\":1,  \"a\":2}", "[1]"),
        ("jsonb", "{\"a\": 2, \"b\": 1}", "[1]"),
        ("text", "{\"b\":1,  \"a\":2}", "[1]"),
        ("varchar(100)", "{\"b\":1,  \"a\":2}", "[1]"),
        ("bytea", "{\"b\":1,  \"a\":2}", "[1]"),
        ("stuff", "{\"b\":1,  \"a\":2}", "[1]"),
    ] {
        let fixture = Fixture::new(BINARY, "payloads");
        let mut client = fixture.client();
        let table = format!(
            "CREATE DOMAIN stuff AS bytea;
             CREATE TABLE own (id int GENERATED ALWAYS AS IDENTITY, topic varchar(50), payload {kind})"
        );
        client.batch_execute(&table).unwrap();
        let calls = "SELECT postrider.enqueue('t', '{\"b\":1,  \"a\":2}', outbox => 'own'),
            postrider.enqueue_bytes('t', '[1]', outbox => 'own'),
            postrider.enqueue_batch('own', '{t,t}', ARRAY['{\"b\":1,  \"a\":2}', NULL]::json[]),
            postrider.enqueue_batch_bytes('own', '{t}', '{[1]}')";
        client.batch_execute(calls).unwrap();
        let shown = match kind {
            "bytea" | "stuff" => "convert_from(payload, 'UTF8')",
            _ => "payload::text",
        };
        let sql = format!("SELECT string_agg(coalesce({shown}, 'none'), '|' ORDER BY id) FROM own");
        let expect = format!("{json}|{bytes}|{json}|none|{bytes}");
        assert_eq!(text(&mut client, &sql), expect, "{kind}");
    }
}

#[test]
fn bytes_of_any_kind_need_a_column_of_bytes() {
    let (_fixture, mut client) = with_table("bytes", "topic text, payload bytea");
    let sql = "SELECT postrider.enqueue_bytes('t', '\\xff00fe', outbox => 'own')";
    client.batch_execute(sql).unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM own WHERE payload = '\\xff00fe'"), 1);
    client.batch_execute("CREATE TABLE plain (topic text, payload text)").unwrap();
    let message = refused(&mut client, &sql.replace("'own'", "'plain'"), "22023");
    assert!(message.contains("column must be bytea"), "{message}");
}

#[test]
fn keys_of_other_types_are_accepted() {
    let columns =
        "id uuid DEFAULT gen_random_uuid(), topic text, payload jsonb, idempotency_key uuid,
        ordering_key bigint, tenant uuid, headers jsonb, UNIQUE (topic, idempotency_key)";
    let (_fixture, mut client) = with_table("types", columns);
    let sql = "SELECT postrider.enqueue('t', '1', '10000000-0000-0000-0000-000000000001', '7',
        '20000000-0000-0000-0000-000000000001', '{\"a\": 1}', outbox => 'own')";
    let first = text(&mut client, sql);
    assert_eq!(text(&mut client, sql), first);
    let sql = "SELECT (postrider.enqueue_batch('own', '{t,t}', '{1,2}',
        '{NULL,10000000-0000-0000-0000-000000000001}', tenants => '{NULL,NULL}'))[2]";
    assert_eq!(text(&mut client, sql), first);
    assert_eq!(number(&mut client, "SELECT count(*) FROM own WHERE ordering_key = 7"), 1);
    assert_eq!(number(&mut client, "SELECT count(*) FROM own"), 2);
}

#[test]
fn a_partitioned_table_accepts_events_and_detects_no_duplicates() {
    let fixture = Fixture::new(BINARY, "partitioned");
    let mut client = fixture.client();
    let table = "CREATE TABLE own (LIKE outbox INCLUDING DEFAULTS INCLUDING IDENTITY)
            PARTITION BY RANGE (created_at);
        CREATE TABLE own_all PARTITION OF own DEFAULT";
    // Identity columns of partitioned tables came with 17.
    let id = "ALTER TABLE own ALTER id DROP IDENTITY IF EXISTS; CREATE SEQUENCE own_id;
        ALTER TABLE own ALTER id SET DEFAULT nextval('own_id')";
    let table = table.replace(" INCLUDING IDENTITY", "");
    client.batch_execute(&format!("{table}; {id}")).unwrap();
    let sql = format!("SELECT postrider.enqueue('t', '1', {ALL})");
    let first = text(&mut client, &sql);
    assert_ne!(text(&mut client, &sql), first);
    let sql =
        "SELECT array_to_string(postrider.enqueue_batch('own', '{t,t}', '{1,2}', '{k,k}'), ',')";
    let ids = text(&mut client, sql);
    assert_eq!(ids, "3,4");
    assert_eq!(number(&mut client, "SELECT count(*) FROM own_all"), 4);
}

#[test]
fn a_row_rejected_by_another_index_is_an_error_and_not_a_loop() {
    let columns =
        "id int, topic text, payload json, idempotency_key text, ordering_key text UNIQUE";
    let (_fixture, mut client) = with_table("kept_out", columns);
    let event = "'t', '1', 'a', ordering_key => 'o', outbox => 'own'";
    client.batch_execute(&format!("SELECT postrider.enqueue({event})")).unwrap();
    let sql = format!("SELECT postrider.enqueue({})", event.replace("'a'", "'b'"));
    let message = refused(&mut client, &sql, "23505");
    assert!(message.contains("unique index on other columns"), "{message}");
    let batch = "SELECT postrider.enqueue_batch('own', '{t}', '{1}', '{b}', '{o}')";
    refused(&mut client, batch, "23505");
    // Without a key, a conflict must not be ignored.
    let sql = format!("SELECT postrider.enqueue({})", event.replace("'a'", "NULL"));
    refused(&mut client, &sql, "23505");
}
