//! Conditions that select rows. When in doubt, a row is published.

use super::JobTable;
use postrider_core::transaction_age::may_be_since;

/// 32 bits of the number of the transaction that wrote the row.
pub(super) const NUMBER: &str = "t.xmin::text::bigint";
/// Which command of its transaction wrote the row; wrong if a DELETE of the row was rolled back
/// since.
pub(super) const COMMAND: &str = "t.cmin::text::bigint";

/// All 64 bits of it: the highest number with these 32 bits that is below the snapshot's xmax.
pub(super) fn full_number() -> String {
    let now = "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)";
    format!("({now} - (({now} - {NUMBER}) & 4294967295))")
}

/// A time in microseconds. Times out of range, and infinity, become the ends of the range.
pub(super) fn micros(time: &str) -> String {
    format!(
        "greatest(least(extract(epoch FROM {time}) * 1000000, 9223372036854775806), \
                  -9223372036854775807)::bigint"
    )
}

fn xid8(number: &str) -> String {
    format!("'{}'::xid8", number.replace('\'', ""))
}

/// Rows that have to be published in some attempt.
pub(super) fn candidates(table: &JobTable) -> String {
    table.since.as_ref().map_or("true".to_owned(), |since| may_be_since(&xid8(since)))
}

/// Which rows of the table are to be published in this attempt. `leading` is what they are ordered
/// by first; `seen_before`: transactions before this one had ended when the first attempt began.
pub(super) fn wanted(table: &JobTable, leading: &str, seen_before: Option<&str>) -> String {
    let mut terms = vec![candidates(table)];
    if let Some(seen) = seen_before {
        let is_new = may_be_since(&xid8(seen));
        match (table.is_done, table.reached) {
            (true, _) => terms.push(is_new),
            (false, Some(reached)) => {
                terms.push(format!("(({leading} <= {reached}) IS NOT TRUE OR {is_new})"));
            }
            (false, None) => {}
        }
    }
    terms.join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_try_leaves_out_what_the_first_has_published() {
        let check = |table: JobTable, seen: Option<&str>, parts: &[&str]| {
            let sql = wanted(&table, "t.\"id\"", seen);
            for part in parts {
                assert!(sql.contains(part), "{sql}");
            }
            assert_eq!(sql == "true", parts.is_empty(), "{sql}");
        };
        check(JobTable::default(), None, &[]);
        check(JobTable::default(), Some("7"), &[]);
        let begun = JobTable { reached: Some(5), ..JobTable::default() };
        check(begun, Some("7"), &["(t.\"id\" <= 5) IS NOT TRUE OR", "'7'::xid8"]);
        let recover = JobTable { since: Some("3".to_owned()), ..JobTable::default() };
        check(recover, None, &["'3'::xid8"]);
        let done = JobTable { is_done: true, reached: Some(5), ..JobTable::default() };
        assert!(!wanted(&done, "t.id", Some("7")).contains("<= 5"));
    }
}
