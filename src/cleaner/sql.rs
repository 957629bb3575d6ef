//! Conditions on a row, shared by picking and deleting: what was true when a row was picked is asked
//! again when it goes.

use super::outbox::{Leaf, Outbox};

/// The largest age that may belong to a transaction. Frozen rows can have any number, and the two
/// that stand for "frozen" have the age 2147483647.
const AGE_MAX: &str = "2147483646";

/// The age of the transaction `since` (an expression of type text), or a larger one where all
/// transactions whose age can be told are younger. Asked once for a statement.
///
/// `xmin` has 32 bits of the 64 that `since` has: which 32 are missing is unknown. Its age is told
/// modulo 2^32 and has a sign, so a row that seems to be older than 2^31 transactions, or not yet
/// written, is one of which nothing is known. It stays.
pub(super) fn age_max(since: &str) -> String {
    format!(
        "(SELECT CASE WHEN x.now < {since}::bigint THEN -1 \
                      WHEN x.now - {since}::bigint > {AGE_MAX} THEN {AGE_MAX} \
                      ELSE age({since}::xid8::xid) END \
            FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS x(now))"
    )
}

/// The row was written by the transaction `since` or a later one, and after what was found when the
/// slot began.
pub(super) fn is_certain(outbox: &Outbox, since: &str, floor: &str) -> String {
    format!(
        "(age(t.xmin) BETWEEN 0 AND {} AND t.{}::timestamptz > {floor}::timestamptz)",
        age_max(since),
        outbox.created_at,
    )
}

/// The row is older than so many seconds.
pub(super) fn is_old(outbox: &Outbox, seconds: &str) -> String {
    format!("(t.{}::timestamptz < now() - {seconds} * interval '1 second')", outbox.created_at)
}

/// The row's transaction is below the first, or not below the second: its retention is over, counted from
/// its publication.
pub(super) fn is_served(published_before: &str, prompt_since: &str) -> String {
    format!(
        "(age(t.xmin) > {} OR age(t.xmin) <= {})",
        age_max(published_before),
        age_max(prompt_since)
    )
}

/// Its event waits in the side table, or was published from there less than so many seconds ago: then its
/// retention counts from that. Whatever the table is called there: it may have been renamed. Mostly there is
/// nothing, which is found out once for a statement. Each has an index of its own.
pub(super) fn is_parked(outbox: &Outbox, seconds: &str) -> String {
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
        is_entry("u.status IN ('pending', 'processing', 'dead')", ""),
        is_entry("u.status = 'delivered'", &is_recent),
    )
}

/// The leaf alone: children by inheritance are tables of their own.
pub(super) fn only(leaf: &Leaf) -> String {
    format!("ONLY {} AS t", leaf.name.quoted())
}
