//! Several tables in one publication and slot, and rows that are deleted before they are read.

use super::{SOON, prepared, publish, values, write};
use crate::harness::metrics::metric;
use testkit::consumer::Received;
use testkit::wait::wait_until;

const FILE: &str = r#"
[postgres]
tables = ["public.outbox", "billing.events", '"Odd, schema"."Out.""Box"']

[tables."billing.events"]
columns = { topic = "destination", payload = "body", ordering_key = "account" }

[tables.'"Odd, schema"."Out.""Box"']
preset = "debezium"
format.value = "protobuf"
route.topic = "{aggregatetype}"
"#;

const TABLES: &str = r#"
    create table outbox (topic text, payload json, ordering_key text);
    create schema billing;
    create table billing.events (account bigint, body bytea, destination text);
    create schema "Odd, schema";
    create table "Odd, schema"."Out.""Box" (payload text, id int, aggregatetype text,
        aggregateid text, type text)"#;

#[test]
fn tables_of_different_layouts_share_publication_and_slot() {
    let mut fixture = prepared("layouts", TABLES);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("postrider.toml");
    std::fs::write(&file, FILE).unwrap();
    fixture.set("POSTRIDER_CONFIG", file.to_str().unwrap());
    fixture.migrate();
    let rows = r#"
        begin;
        insert into outbox values ('TOPIC', '1', 'k');
        insert into billing.events values (7, '2', 'TOPIC');
        insert into "Odd, schema"."Out.""Box" values ('3', 1, 'TOPIC', 'k', 't');
        insert into outbox values ('TOPIC', '4', 'k');
        insert into billing.events values (7, '5', 'TOPIC');
        commit"#;
    let records = publish(&mut fixture, rows, 5);
    let keys: Vec<_> = records.iter().filter_map(Received::key_text).collect();
    assert_eq!(keys, ["k", "7", "k", "k", "7"]);
    let plain: Vec<_> = [0, 1, 3, 4].map(|at| records[at].value_text()).into();
    assert_eq!(plain, [Some("1"), Some("2"), Some("4"), Some("5")]);
    let envelope = String::from_utf8_lossy(records[2].value.as_deref().unwrap()).into_owned();
    assert!(envelope.contains(r#""Odd, schema"."Out.""Box""#), "{envelope:?}");

    let topic = fixture.topic("orders");
    for (table, count) in [
        ("public.outbox", 2.0),
        ("billing.events", 2.0),
        (r#"\"Odd, schema\".\"Out.\"\"Box\""#, 1.0),
    ] {
        let series = format!("outbox_published_total{{table=\"{table}\",topic=\"{topic}\"}}");
        wait_until(&series, SOON, || metric(fixture.relay(), &series) == Some(count));
    }
}

// The log has the insert, whatever happened to the row later.
#[test]
fn a_row_that_its_own_transaction_deletes_is_published() {
    let mut fixture = prepared("deleted", "create table outbox (id int, topic text, payload json)");
    fixture.migrate();
    let rows = "
        begin;
        insert into outbox values (1, 'TOPIC', '1');
        delete from outbox;
        insert into outbox values (2, 'TOPIC', '2');
        commit;
        begin; delete from outbox; insert into outbox values (3, 'TOPIC', '3'); delete from outbox;
        commit;
        begin; insert into outbox values (4, 'TOPIC', 'null'); delete from outbox; rollback;
        truncate outbox;
        insert into outbox values (5, 'TOPIC', '5')";
    let records = publish(&mut fixture, rows, 4);
    assert_eq!(values(&records), ["1", "2", "3", "5"]);
}

#[test]
fn heavy_traffic_on_other_tables_does_not_disturb_the_relay() {
    let mut fixture = prepared(
        "heavy",
        "create table outbox (topic text, payload json, ordering_key text);
         create table other (id int primary key, topic text, payload json);
         create publication postrider for table outbox, other",
    );
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let round = "insert into other select g, 'TOPIC', '{}' from generate_series(1, 20000) g;
        insert into outbox values ('TOPIC', '1', 'k');
        update other set topic = 'x';
        begin; delete from other; insert into outbox values ('TOPIC', '2', 'k'); commit;
        insert into other select g, 'TOPIC', '{}' from generate_series(1, 100) g;
        truncate other;";
    for _ in 0..3 {
        write(&fixture, &topic, round);
    }
    let records = fixture.consumer().read_n(6, SOON);
    assert_eq!(values(&records), ["1", "2", "1", "2", "1", "2"]);
    for (kind, count) in [("other_table", 60_300.0), ("update", 60_000.0), ("delete", 60_000.0)] {
        let series = format!("postrider_ignored_messages_total{{kind=\"{kind}\"}}");
        wait_until(&series, SOON, || metric(fixture.relay(), &series) == Some(count));
    }
    wait_until("all of it to be confirmed", SOON, || {
        fixture.unconfirmed_bytes().is_some_and(|bytes| bytes < 100_000)
    });
    let log = fixture.relay().log();
    assert!(
        log.contains("not in postgres.tables"),
        "the table that is not an outbox is not named:\n{log}"
    );
    assert_eq!(fixture.consumer().end_offsets(&topic), [6]);
}
