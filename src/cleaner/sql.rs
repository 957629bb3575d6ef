//! Conditions on a row, shared by picking and deleting: what was true when a row was picked is
//! checked again when it is deleted.

use super::table::{CleanableTable, Leaf};
use crate::schema::live;
use postrider_core::transaction_age::{InDoubt, age_max};

/// The row was written by the transaction `since` or a later one, and its `created_at` is after
/// `uncertain_until`.
pub(super) fn certain_condition(
    outbox: &CleanableTable,
    since: &str,
    uncertain_until: &str,
) -> String {
    format!(
        "(age(t.xmin) BETWEEN 0 AND {} AND t.{}::timestamptz > {uncertain_until}::timestamptz)",
        age_max(since, InDoubt::Old),
        outbox.created_at,
    )
}

/// The row is older than `seconds`.
pub(super) fn old_condition(outbox: &CleanableTable, seconds: &str) -> String {
    format!("(t.{}::timestamptz < now() - {seconds} * interval '1 second')", outbox.created_at)
}

/// The row's transaction is before the first, or not before the second: its retention, counted from
/// its publication, has passed.
pub(super) fn retention_passed(published_before: &str, prompt_since: &str) -> String {
    format!(
        "(age(t.xmin) > {} OR age(t.xmin) <= {})",
        age_max(published_before, InDoubt::Old),
        age_max(prompt_since, InDoubt::Old)
    )
}

/// Its event waits in the side table, or was published from there less than `seconds` ago: then its
/// retention counts from that. The table's name is not compared: it may have been renamed. Usually
/// there is nothing, which is determined once per statement. Each condition has its own index.
pub(super) fn parked_condition(outbox: &CleanableTable, seconds: &str) -> String {
    let id = &outbox.id;
    let is_entry = |condition: &str, is_recent: &str| {
        format!(
            "((SELECT EXISTS (SELECT FROM postrider.undelivered u WHERE {condition})) \
              AND EXISTS (SELECT FROM postrider.undelivered u \
                           WHERE u.row_id = t.{id}::text \
                             AND {condition}{is_recent}))"
        )
    };
    let is_recent = format!(" AND u.delivered_at > now() - {seconds} * interval '1 second'");
    format!(
        "({} OR {})",
        is_entry(concat!("u.status IN ", live!()), ""),
        is_entry("u.status = 'delivered'", &is_recent),
    )
}

/// The leaf without its children by inheritance, which are tables of their own.
pub(super) fn only(leaf: &Leaf) -> String {
    format!("ONLY {} AS t", leaf.name.quoted())
}
