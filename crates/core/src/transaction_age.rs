//! How old the transaction is that wrote a row: the one rule for it, as SQL.
//!
//! A row's `xmin` has only the lower 32 of the 64 bits of its transaction's number, so its age is
//! known modulo 2^32, with a sign: ages of up to 2^31 can be distinguished. A frozen row can have
//! any number, and the two numbers that mean "frozen" have the age 2147483647
//! (<https://www.postgresql.org/docs/current/routine-vacuuming.html#VACUUM-FOR-WRAPAROUND>). If
//! nothing is known, the caller chooses the safe side: a row that may be new is published, and is
//! not deleted.

/// What a row of unknown age counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InDoubt {
    /// Written since then.
    New,
    /// Written before.
    Old,
}

/// The age of the transaction `since` (an expression in SQL, of type text or xid8): rows `t` with
/// `age(t.xmin)` up to that were written by it or a later one. Evaluated once per statement.
pub fn age_max(since: &str, in_doubt: InDoubt) -> String {
    let all_known = match in_doubt {
        InDoubt::New => "2147483647",
        InDoubt::Old => "2147483646",
    };
    format!(
        "(SELECT CASE WHEN x.now < {since}::text::bigint THEN -1 \
                      WHEN x.now - {since}::text::bigint > 2147483646 THEN {all_known} \
                      ELSE age({since}::text::xid8::xid) END \
            FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS x(now))"
    )
}

/// The row `t` was written by the transaction `since` or a later one, or that is unknown.
pub fn may_be_since(since: &str) -> String {
    format!("(age(t.xmin) <= {})", age_max(since, InDoubt::New))
}
