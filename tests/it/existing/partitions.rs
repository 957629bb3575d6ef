//! Outbox tables in several parts: partitions, and children by plain inheritance.

use super::{SOON, assert_refused, prepared, publish, values, write};
use crate::harness::halt::wait_halt;
use crate::harness::metrics::metric;
use testkit::shared;
use testkit::wait::wait_until;

const PARTITIONED: &str = "
    create table outbox (id int, topic text, payload json) partition by range (id);
    create table outbox_1 partition of outbox for values from (0) to (10)";

const MORE: &str = "
    insert into outbox values (1, 'TOPIC', '1');
    create table outbox_2 partition of outbox for values from (10) to (20);
    insert into outbox values (11, 'TOPIC', '2');
    create table attached (payload json, extra int, id int, topic text);
    alter table attached drop column extra;
    BEFORE_ATTACHING;
    alter table outbox attach partition attached for values from (20) to (30);
    insert into outbox values (22, 'TOPIC', '3');
    insert into attached values ('4', 23, 'TOPIC');
    create table deep partition of outbox for values from (30) to (50) partition by range (id);
    create table deep_1 partition of deep for values from (30) to (40);
    insert into outbox values (31, 'TOPIC', '5');
    begin;
    insert into outbox values (2, 'TOPIC', '6');
    alter table outbox detach partition outbox_1;
    commit;
    drop table outbox_1";

fn postgres_14() -> bool {
    shared::postgres().address().major_version() == 14
}

/// Partitions are attached and detached while the relay runs, and before it reads what was written
/// to them.
#[track_caller]
fn check(name: &str, publication: &str, before_attaching: &str) {
    for running in [true, false] {
        let mut fixture = prepared(name, &format!("{PARTITIONED}; {publication}"));
        fixture.migrate();
        let topic = fixture.create_topic("orders", 1, &[]);
        if running {
            fixture.start_relay().wait_ready(SOON);
        }
        write(&fixture, &topic, &MORE.replace("BEFORE_ATTACHING", before_attaching));
        if !running {
            fixture.start_relay().wait_ready(SOON);
        }
        let records = fixture.consumer().read_n(6, SOON);
        assert_eq!(values(&records), ["1", "2", "3", "4", "5", "6"], "running: {running}");
        let series = format!("outbox_published_total{{table=\"public.outbox\",topic=\"{topic}\"}}");
        wait_until(&series, SOON, || metric(fixture.relay(), &series) == Some(6.0));
        assert_eq!(fixture.consumer().end_offsets(&topic), [6]);
    }
}

#[test]
fn partitions_can_be_attached_and_detached() {
    // Postgres 14 remembers that a table is not published, even after it becomes a partition, and
    // leaves out its rows, as docs/configuration.md states.
    let of_another_table =
        if postgres_14() { "select 1" } else { "insert into attached values ('0', 21, 'TOPIC')" };
    check("parts", "select 1", of_another_table);
}

#[test]
fn partitions_can_be_attached_and_detached_where_all_tables_are_published() {
    check(
        "all_parts",
        "create publication postrider for all tables with (publish_via_partition_root)",
        "select 1",
    );
}

#[test]
fn partitions_under_their_own_names_are_refused_and_waiting_rows_follow_after_the_fix() {
    let mut fixture = prepared(
        "own_names",
        &format!(
            "{PARTITIONED}; create publication postrider for all tables;
             select pg_create_logical_replication_slot('SLOT', 'pgoutput')"
        ),
    );
    let fix = "ALTER PUBLICATION \"postrider\" SET (publish_via_partition_root = true)";
    let what = "publishes partitions of public.outbox under their own names";
    assert_refused(&mut fixture, what, fix);
    assert_refused(&mut fixture, what, "or name every partition in postgres.tables");
    // The log has this row under the partition's name forever.
    let rows = format!(
        "insert into outbox values (1, 'TOPIC', '1'); {fix};
                        insert into outbox values (2, 'TOPIC', '2')"
    );
    let before = if postgres_14() { 1 } else { 2 };
    let topic = fixture.create_topic("orders", 1, &[]);
    write(&fixture, &topic, &rows);
    fixture.migrate();
    fixture.start_relay().wait_ready(SOON);
    let mut records = fixture.consumer().read_n(before, SOON);
    if postgres_14() {
        // The server sends rows under another name without announcing the table. Nothing is lost:
        // the next stream begins with the announcement.
        let log = wait_halt(&mut fixture);
        assert!(log.contains("arrived, but that relation was not announced"), "{log}");
        fixture.start_relay().wait_ready(SOON);
        records = fixture.consumer().read_n(2, SOON);
    }
    assert_eq!(values(&records), ["1", "2"]);
}

#[test]
fn partitions_under_their_own_names_are_outboxes_of_their_own() {
    let mut fixture = prepared(
        "leaves",
        &format!(
            "{PARTITIONED};
             create table outbox_2 partition of outbox for values from (10) to (20);
             create publication postrider for all tables"
        ),
    );
    fixture.set("POSTRIDER_TABLES", "outbox_1,outbox_2");
    fixture.migrate();
    let rows = "insert into outbox values (1, 'TOPIC', '1'); insert into outbox_2 values (11, 'TOPIC', '2');
        insert into outbox values (12, 'TOPIC', '3')";
    assert_eq!(values(&publish(&mut fixture, rows, 3)), ["1", "2", "3"]);
    let topic = fixture.topic("orders");
    for (table, count) in [("outbox_1", 1.0), ("outbox_2", 2.0)] {
        let series =
            format!("outbox_published_total{{table=\"public.{table}\",topic=\"{topic}\"}}");
        wait_until(&series, SOON, || metric(fixture.relay(), &series) == Some(count));
    }
}

#[test]
fn a_partition_whose_rows_are_sent_as_its_tables_is_refused() {
    let mut fixture = prepared(
        "ancestor",
        &format!(
            "{PARTITIONED};
             create publication postrider for table outbox with (publish_via_partition_root);
             select pg_create_logical_replication_slot('SLOT', 'pgoutput')"
        ),
    );
    fixture.set("POSTRIDER_TABLES", "outbox_1");
    let what = "publishes rows of public.outbox_1 under the name of public.outbox";
    assert_refused(&mut fixture, what, "name public.outbox in postgres.tables");
}

#[test]
fn children_by_inheritance_must_be_named() {
    let mut fixture = prepared(
        "children",
        "create table outbox (id int, topic text, payload json);
         create table child (note text) inherits (outbox);
         create table grandchild () inherits (child);
         create publication postrider for table outbox;
         select pg_create_logical_replication_slot('SLOT', 'pgoutput')",
    );
    let what = "rows are sent under their own names: public.child, public.grandchild";
    assert_refused(&mut fixture, what, "name them in postgres.tables");
    fixture.set("POSTRIDER_TABLES", "outbox,child,grandchild");
    fixture.migrate();
    let rows =
        "insert into child values (1, 'TOPIC', '1'); insert into outbox values (2, 'TOPIC', '2');
        insert into grandchild values (3, 'TOPIC', '3')";
    assert_eq!(values(&publish(&mut fixture, rows, 3)), ["1", "2", "3"]);
}
