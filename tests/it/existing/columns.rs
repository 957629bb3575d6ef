//! Tables with column names of their own.

use super::{SOON, assert_refused, prepared, publish, values, write};
use crate::harness::halt::{last_two_lines, wait_halt};
use crate::harness::rig::wait_caught_up;
use testkit::consumer::Received;
use testkit::wait::{poll_for, wait_until};

const EVENTS: &str = "
    create type kind as enum ('order.paid');
    create table events (id int primary key, topic text default 'not this one', destination text,
        body jsonb, aggregate_id text, kind kind, meta json)";

const MAPPED: &str = "topic=destination,payload=body,ordering_key=aggregate_id,type=kind,headers=meta,tenant=aggregate_id";

#[test]
fn mapped_columns_become_the_record() {
    let mut fixture = prepared("mapped", EVENTS);
    fixture.set("POSTRIDER_TABLES", "events").set("POSTRIDER_POSTGRES_COLUMNS", MAPPED);
    fixture.migrate();
    let rows = r#"insert into events (id, destination, body, aggregate_id, kind, meta) values
        (1, 'TOPIC', '{"a": 1}', 'order-1', 'order.paid', '{"source": "shop"}'),
        (2, 'TOPIC', null, null, null, null)"#;
    let records = publish(&mut fixture, rows, 2);
    let full = &records[0];
    assert_eq!((full.key_text(), full.value_text()), (Some("order-1"), Some("{\"a\": 1}")));
    let header = |name| full.header(name);
    assert_eq!([header("id"), header("type")], [Some("1"), Some("order.paid")]);
    assert_eq!([header("tenant"), header("source")], [Some("order-1"), Some("shop")]);
    // Without a key of its own, a row uses its id.
    assert_eq!((records[1].value.as_deref(), records[1].key_text()), (None, Some("2")));
}

#[test]
fn debeziums_layout_is_supported() {
    let mut fixture = prepared(
        "debezium",
        "create table outboxevent (id uuid not null, aggregatetype varchar(255) not null,
            aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb)",
    );
    fixture.set("POSTRIDER_TABLES", "outboxevent").set("POSTRIDER_POSTGRES_PRESET", "debezium");
    // The topic that this test creates, without the preset's prefix.
    fixture.set("POSTRIDER_ROUTE_TOPIC", "{topic}");
    fixture.migrate();
    let id = "6f1c1f3e-2b1a-4c5d-8e9f-0a1b2c3d4e5f";
    let rows = format!(
        "insert into outboxevent values ('{id}', 'TOPIC', '4711', 'OrderCreated', '{{\"n\": 1}}');
         delete from outboxevent"
    );
    let records = publish(&mut fixture, &rows, 1);
    let record = &records[0];
    assert_eq!((record.key_text(), record.value_text()), (Some("4711"), Some("{\"n\": 1}")));
    assert_eq!(record.headers, [("id".to_owned(), Some(id.as_bytes().to_vec()))]);
}

#[test]
fn a_mapped_column_must_exist_even_if_it_is_optional() {
    let mut fixture = prepared("asked", EVENTS);
    fixture.set("POSTRIDER_TABLES", "events").set("POSTRIDER_POSTGRES_COLUMNS", MAPPED);
    fixture.migrate();
    let with = |more: &str| format!("{MAPPED},{more}");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", &with("traceparent=trace"));
    let what = "table public.events has no column \"trace\" (our traceparent)";
    assert_refused(&mut fixture, what, "postgres.columns");
    fixture.client().batch_execute("alter table events add column \"Trace\" text").unwrap();
    assert_refused(&mut fixture, what, "'\"Trace\"'");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", &with("partition=kind"));
    fixture.client().batch_execute("alter table events alter kind type json using null").unwrap();
    assert_refused(&mut fixture, "column \"kind\" (our type) of outbox table", "change the column");
}

#[test]
fn a_missing_table_is_created_with_the_mapped_names_if_possible() {
    let mut fixture = prepared("made", "create schema orders");
    fixture.set("POSTRIDER_TABLES", "orders.outbox");
    fixture.set("POSTRIDER_POSTGRES_PRESET", "debezium");
    let output = fixture.run(&["migrate"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("idempotency_key would share the column \"id\""), "{errors}");

    fixture.unset("POSTRIDER_POSTGRES_PRESET");
    let columns = "topic=destination,payload=\"Odd \"\"body\"\"\",type=order,partition=part";
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", columns);
    let output = fixture.run(&["migrate"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    let rows = r#"insert into orders.outbox (destination, "Odd ""body""", "order", part)
        values ('TOPIC', '[1]', 'first', 0)"#;
    assert!(stdout.contains(r#"insert into orders.outbox ("destination", "Odd ""body""") values"#));
    let records = publish(&mut fixture, rows, 1);
    assert_eq!(records[0].value_text(), Some("[1]"));
    assert_eq!(records[0].header("type"), Some("first"));
}

#[test]
fn a_mapped_column_renamed_and_renamed_back_loses_nothing() {
    let mut fixture = prepared("renamed_map", EVENTS);
    fixture.set("POSTRIDER_TABLES", "events").set("POSTRIDER_POSTGRES_COLUMNS", MAPPED);
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let consumer = fixture.consumer();
    let rename = "alter table events rename column aggregate_id to aggregate";
    write(
        &fixture,
        &topic,
        &format!(
            "insert into events (id, destination, body, aggregate_id) values (1, 'TOPIC', '1', 'k');
             {rename}; insert into events (id, destination, body, aggregate) values (2, 'TOPIC', '2', 'k')"
        ),
    );
    let log = wait_halt(&mut fixture);
    assert!(log.contains("\"aggregate_id\" (our ordering_key)"), "{log}");
    write(
        &fixture,
        &topic,
        "alter table events rename column aggregate to aggregate_id;
         insert into events (id, destination, body, aggregate_id) values (3, 'TOPIC', '3', 'k')",
    );
    fixture.start_relay();
    let last = |so_far: &[Received]| so_far.iter().any(|it| it.value_text() == Some("3"));
    let mut records = consumer.read_until(SOON, last);
    records.dedup_by(|one, other| one.value == other.value);
    assert_eq!(values(&records), ["1", "2", "3"]);
    assert!(records.iter().all(|it| it.key_text() == Some("k")));
}

#[test]
fn a_mapped_column_can_be_younger_than_the_waiting_rows() {
    let mut fixture = prepared("younger", EVENTS);
    fixture.set("POSTRIDER_TABLES", "events");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", "topic=destination,payload=body,type=");
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    write(
        &fixture,
        &topic,
        "insert into events (id, destination, body) values (1, 'TOPIC', '1');
         alter table events add column customer text;
         insert into events (id, destination, body, customer) values (2, 'TOPIC', '2', 'c')",
    );
    fixture
        .set("POSTRIDER_POSTGRES_COLUMNS", "topic=destination,payload=body,ordering_key=customer");
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(2, SOON);
    let keys: Vec<_> = records.iter().map(Received::key_text).collect();
    assert_eq!(keys, [Some("1"), Some("c")]);
}

// Nothing shows whether the missing column was dropped or renamed to the new one.
#[test]
fn after_another_column_was_dropped_the_old_mapping_reads_the_waiting_rows() {
    let mut fixture = prepared("younger_gone", EVENTS);
    let columns = "topic=destination,payload=body,type=";
    fixture.set("POSTRIDER_TABLES", "events").set("POSTRIDER_POSTGRES_COLUMNS", columns);
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    write(
        &fixture,
        &topic,
        "insert into events (id, destination, body) values (1, 'TOPIC', '1');
         alter table events drop column aggregate_id;
         alter table events add column customer text",
    );
    let mapped = format!("{columns},ordering_key=customer");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", &mapped);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    let what =
        "no published column \"customer\" (our ordering_key); it has lost \"aggregate_id\" since";
    assert!(log.contains(what), "{log}");
    let fix = "until these rows are read; then map the new column";
    assert!(last_two_lines(&log)[1].contains(fix), "{log}");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", columns);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(1, SOON);
    wait_caught_up(&mut fixture);
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", &mapped);
    let newer =
        "insert into events (id, destination, body, customer) values (2, 'TOPIC', '2', 'c')";
    write(&fixture, &topic, newer);
    fixture.start_relay().wait_ready(SOON);
    let records = fixture.consumer().read_n(2, SOON);
    let keys: Vec<_> = records.iter().map(Received::key_text).collect();
    assert_eq!(keys, [Some("1"), Some("c")]);
}

// They wait in the log as they were written: no change of the table could repair them.
#[test]
fn rows_from_before_a_required_column_are_parked_and_the_rest_is_published() {
    for (name, columns, column, rows) in [
        ("younger_topic", "topic=routed_topic,payload=body,type=", "routed_topic", "'TOPIC', '2'"),
        ("younger_body", "topic=destination,payload=content,type=", "content", "'\"2\"', 'TOPIC'"),
    ] {
        let mut fixture = prepared(name, EVENTS);
        fixture.set("POSTRIDER_TABLES", "events");
        fixture.set("POSTRIDER_POSTGRES_COLUMNS", "topic=destination,payload=body,type=");
        fixture.migrate();
        let topic = fixture.create_topic("orders", 1, &[]);
        let (kind, other) = match column {
            "content" => ("jsonb", "destination"),
            _ => ("text", "body"),
        };
        let sql = format!(
            "insert into events (id, destination, body) values (1, 'TOPIC', '1');
             alter table events add column {column} {kind};
             insert into events (id, {column}, {other}) values (2, {rows})"
        );
        write(&fixture, &topic, &sql);
        fixture.set("POSTRIDER_POSTGRES_COLUMNS", columns);
        fixture.start_relay().wait_ready(SOON);
        assert_eq!(fixture.consumer().read_n(1, SOON)[0].id(), "2");
        let sql = "select row_id, reason, last_error, form from postrider.undelivered
            where status = 'dead'";
        let mut client = fixture.client();
        let row = poll_for(SOON, || client.query_opt(sql, &[]).unwrap()).expect("a parked row");
        let [id, reason, error, form]: [String; 4] = [0, 1, 2, 3].map(|column| row.get(column));
        assert_eq!([id.as_str(), &reason, &form], ["1", "column-null", "fragment"]);
        assert!(error.contains(&format!("(the table's column \"{column}\")")), "{error}");
        assert!(error.contains("when the row was written"), "{error}");
    }
}

// Its values arrive as raw bytes, also in text form and if the type is added while the relay runs.
#[test]
fn a_domain_is_treated_as_its_base_type() {
    let mut fixture = prepared(
        "domains",
        "create domain bytes as bytea; create domain small_bytes as bytes check (length(value) < 9);
         create domain object as json; create type mood as enum ('fine');
         create table outbox (topic text, payload small_bytes, headers object);
         create table moods (topic text, payload small_bytes, type mood)",
    );
    fixture.migrate();
    let bytes = |so_far: &[Received]| -> Vec<Option<Vec<u8>>> {
        so_far.iter().map(|it| it.value.clone()).collect()
    };
    let rows = r#"insert into outbox values ('TOPIC', '\x00ff5c78', '{"a": 1}')"#;
    let records = publish(&mut fixture, rows, 1);
    assert_eq!(bytes(&records), [Some(b"\x00\xff\\x".to_vec())]);
    assert_eq!(records[0].header("a"), Some("1"));

    let topic = fixture.topic("orders");
    write(
        &fixture,
        &topic,
        r"alter table outbox alter payload type text using encode(payload, 'hex');
          insert into outbox values ('TOPIC', 'text');
          alter table outbox alter payload type bytes using '\x01';
          insert into outbox values ('TOPIC', '\x02')",
    );
    let records = fixture.consumer().read_n(3, SOON);
    assert_eq!(bytes(&records[1..]), [Some(b"text".to_vec()), Some(b"\x02".to_vec())]);

    // In text form.
    fixture.relay().terminate();
    fixture.relay().wait_exit(SOON);
    fixture.set("POSTRIDER_TABLES", "outbox,moods");
    fixture.migrate();
    write(&fixture, &topic, r"insert into moods values ('TOPIC', '\x00ff', 'fine')");
    fixture.start_relay().wait_ready(SOON);
    wait_until("the row in text form", SOON, || fixture.consumer().end_offsets(&topic) == [4]);
    let records = fixture.consumer().read_n(4, SOON);
    assert_eq!(bytes(&records[3..]), [Some(b"\x00\xff".to_vec())]);
    assert_eq!(records[3].header("type"), Some("fine"));
}

#[test]
fn a_fault_names_the_tables_own_column() {
    let mut fixture = prepared("fault", EVENTS);
    fixture.set("POSTRIDER_UNDELIVERED_ORDER", "halt");
    fixture.set("POSTRIDER_TABLES", "events").set("POSTRIDER_POSTGRES_COLUMNS", MAPPED);
    fixture.migrate();
    let row = "insert into events (id, destination, body, meta) values (7, 'anything', '1', '[]')";
    write(&fixture, "", row);
    fixture.start_relay();
    let log = wait_halt(&mut fixture);
    let what = "event 7 of table public.events for topic \"anything\" can't be published: \
                column \"headers\" is not a JSON object (the table's column \"meta\")";
    assert!(log.contains(what), "{log}");
}

#[test]
fn a_generated_column_is_refused_because_it_is_not_sent() {
    let mut fixture = prepared(
        "generated",
        "create table outbox (topic text, payload json, customer text,
            ordering_key text generated always as ('c-' || customer) stored);
         create publication postrider for table outbox;
         select pg_create_logical_replication_slot('SLOT', 'pgoutput')",
    );
    let what = "column \"ordering_key\" of table public.outbox is generated";
    assert_refused(&mut fixture, what, "postgres.columns");
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", "ordering_key=customer");
    fixture.migrate();
    let rows = "insert into outbox (topic, payload, customer) values ('TOPIC', '1', 'me')";
    assert_eq!(publish(&mut fixture, rows, 1)[0].key_text(), Some("me"));
}
