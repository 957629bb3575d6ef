//! Publications that leave something out: rows or columns that would be missed silently are
//! refused.

use super::{assert_refused, prepared, publish, values};
use testkit::shared;

/// Whether the server lacks row filters and column lists.
fn without_lists() -> bool {
    shared::postgres_is_without("row filters and column lists", 15)
}

const OUTBOX: &str = "create table outbox (id int, topic text, payload json, ordering_key text,
    created_at timestamptz default now())";

#[track_caller]
fn check(name: &str, publication: &str, columns: &str, what: &str, fix: &str) {
    if without_lists() {
        return;
    }
    let slot = "select pg_create_logical_replication_slot('SLOT', 'pgoutput')";
    let mut fixture = prepared(name, &format!("{OUTBOX}; {publication}; {slot}"));
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", columns);
    assert_refused(&mut fixture, what, fix);
}

#[test]
fn a_row_filter_is_refused() {
    check(
        "filter",
        "create publication postrider for table outbox where (id > 5) with (publish = insert)",
        "",
        "publication postrider has a row filter for table public.outbox",
        "ALTER PUBLICATION \"postrider\" SET TABLE \"public\".\"outbox\", without WHERE",
    );
}

#[test]
fn a_column_list_without_a_required_column_is_refused() {
    check(
        "list",
        "create publication postrider for table outbox (id, topic)",
        "",
        "publication postrider leaves out column \"payload\" of table public.outbox",
        "ALTER PUBLICATION \"postrider\" SET TABLE \"public\".\"outbox\", without column list",
    );
}

#[test]
fn a_column_list_without_the_ordering_key_is_refused() {
    check(
        "key_list",
        "create publication postrider for table outbox (id, topic, payload)",
        "",
        "leaves out column \"ordering_key\"",
        "without column list",
    );
}

#[test]
fn a_column_list_without_a_mapped_column_is_refused() {
    check(
        "mapped_list",
        "create publication postrider for table outbox (topic, payload, ordering_key)",
        "tenant=id,id=",
        "leaves out column \"id\" (our tenant)",
        "without column list",
    );
}

#[test]
fn a_column_list_that_leaves_out_only_unread_columns_is_accepted() {
    if without_lists() {
        return;
    }
    let mut fixture = prepared(
        "fine_list",
        &format!(
            "{OUTBOX}; create publication postrider for table outbox (id, topic, payload, ordering_key)"
        ),
    );
    fixture.migrate();
    let rows = "insert into outbox values (1, 'TOPIC', '1', 'k')";
    let records = publish(&mut fixture, rows, 1);
    assert_eq!(values(&records), ["1"]);
    assert_eq!(records[0].key_text(), Some("k"));
}
