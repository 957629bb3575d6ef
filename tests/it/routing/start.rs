//! Columns that settings name and tables don't have; columns that are newer than rows.

use super::{SOON, prepared};
use crate::harness::halt::assert_one_sentence_and_its_fix;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::wait::poll_for;

const TABLES: &str = "
    create table orders (id int primary key, topic text, payload json);
    create table mails (id int primary key, topic text, payload json, region text)";

#[track_caller]
fn refused(fixture: &Fixture, command: &str) -> String {
    let output = fixture.run(&[command]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{command}: {errors}");
    errors
}

#[test]
fn unknown_columns_are_errors_of_the_configuration_all_at_once() {
    let mut fixture = prepared("route_unknown", TABLES);
    fixture.set("POSTRIDER_TABLES", "orders,mails");
    fixture.migrate();
    fixture.set("POSTRIDER_ROUTE_TOPIC", "{topic}.{region}.{tenant}");
    fixture.set("POSTRIDER_ROUTE_KEY", "customer,id");
    fixture.set("POSTRIDER_ROUTE_HEADERS", "kind={kind|none}");
    let errors = refused(&fixture, "run");
    assert_one_sentence_and_its_fix(&errors);
    for part in [
        "route.topic names column \"region\"",
        "route.topic names column \"tenant\"",
        "route.key names column \"customer\"",
        "route.headers.kind names column \"kind\"",
        "which table public.orders does not have",
        "which table public.mails does not have",
    ] {
        assert!(errors.contains(part), "{part} is not in {errors}");
    }
    assert_eq!(errors.matches("\"region\"").count(), 1, "mails has it: {errors}");
    assert!(errors.contains("[tables.\"schema.table\"]"), "{errors}");
    let errors = refused(&fixture, "migrate");
    assert!(errors.contains("route.key names column \"customer\""), "{errors}");
    // Also for a table that migrate would create.
    fixture.set("POSTRIDER_TABLES", "not_there");
    let errors = refused(&fixture, "migrate");
    assert!(errors.contains("which table public.not_there does not have"), "{errors}");
}

/// Each event would be parked otherwise.
#[test]
fn a_cloud_event_needs_an_id_and_a_type() {
    let mut fixture = prepared("route_cloud", "create table outbox (topic text, payload json)");
    fixture.set("POSTRIDER_FORMAT_VALUE", "cloudevents-binary");
    fixture.set("POSTRIDER_FORMAT_SOURCE", "/shop");
    let errors = refused(&fixture, "migrate");
    assert!(errors.contains("needs column \"idempotency_key\" or \"id\""), "{errors}");
    assert!(errors.contains("names column \"type\""), "{errors}");
    fixture.set("POSTRIDER_FORMAT_TYPE", "order.changed");
    fixture.client().batch_execute("alter table outbox add column id uuid").unwrap();
    fixture.migrate();
}

#[test]
fn a_column_that_is_newer_than_waiting_rows_is_null_there() {
    let mut fixture = prepared("route_newer", TABLES);
    let topic = fixture.create_topic("t.none", 1, &[]);
    fixture.set("POSTRIDER_TABLES", "orders");
    fixture.migrate();
    fixture
        .client()
        .batch_execute(
            "insert into orders values (1, 't', '1');
             alter table orders add column region text;
             insert into orders values (2, 't', '2', 'none'), (3, 't', '3', null)",
        )
        .unwrap();
    let prefix = fixture.database().to_owned();
    fixture.set("POSTRIDER_ROUTE_TOPIC", &format!("{prefix}.{{topic}}.{{region|none}}"));
    fixture.set("POSTRIDER_ROUTE_HEADERS", "region={region}");
    fixture.start_relay().wait_ready(SOON);
    let records = Consumer::new(fixture.broker(), &[&topic]).read_n(3, SOON);
    let found: Vec<_> = records.iter().map(|it| (it.id(), it.header("region"))).collect();
    assert_eq!(found, [("1", None), ("2", Some("none")), ("3", None)]);
}

/// A column that is dropped while the relay runs stops it, before an event goes elsewhere.
#[test]
fn a_column_that_is_dropped_stops_the_relay() {
    let mut fixture = prepared("route_dropped", TABLES);
    fixture.create_topic("t.eu", 1, &[]);
    fixture.set("POSTRIDER_TABLES", "mails");
    let prefix = fixture.database().to_owned();
    fixture.set("POSTRIDER_ROUTE_TOPIC", &format!("{prefix}.{{topic}}.{{region|eu}}"));
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    fixture
        .client()
        .batch_execute(
            "insert into mails values (1, 't', '1', 'eu'); alter table mails drop column region;
             insert into mails values (2, 't', '2')",
        )
        .unwrap();
    let status = fixture.relay().wait_exit(SOON);
    let log = fixture.relay().log();
    assert!(matches!(status.code(), Some(2 | 3)), "{status}: {log}");
    assert!(log.contains("\"region\""), "{log}");
}

#[test]
fn a_text_that_cannot_be_a_topic_parks_that_event_alone() {
    let mut fixture = prepared("route_illegal", TABLES);
    let topic = fixture.create_topic("t.eu", 1, &[]);
    fixture.set("POSTRIDER_TABLES", "mails");
    let prefix = fixture.database().to_owned();
    fixture.set("POSTRIDER_ROUTE_TOPIC", &format!("{prefix}.t.{{region}}"));
    fixture.migrate();
    fixture
        .client()
        .batch_execute(
            "insert into mails select n, 't', to_json(n),
                (array[null, repeat('x', 300), 'a b', 'eu'])[n] from generate_series(1, 4) n",
        )
        .unwrap();
    fixture.start_relay().wait_ready(SOON);
    assert_eq!(Consumer::new(fixture.broker(), &[&topic]).read_n(1, SOON)[0].id(), "4");
    let sql = "select row_id, reason, last_error from postrider.undelivered
        where status = 'dead' order by row_id";
    let mut client = fixture.client();
    let rows = poll_for(SOON, || {
        let rows = client.query(sql, &[]).unwrap();
        (rows.len() == 3).then_some(rows)
    });
    let rows = rows.expect("three parked rows");
    let found: Vec<(String, String)> = rows.iter().map(|it| (it.get(0), it.get(1))).collect();
    let expect = [("1", "column-null"), ("2", "illegal-topic"), ("3", "illegal-topic")];
    assert_eq!(found, expect.map(|(id, reason)| (id.to_owned(), reason.to_owned())));
    let error: String = rows[0].get(2);
    assert!(error.contains("\"region\" is NULL"), "{error}");
}
