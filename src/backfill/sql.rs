//! Conditions on rows: when in doubt, a row is published.

use super::JobTable;

/// The row was written by this transaction (an expression of type xid8) or a later one, or nobody can
/// tell. `xmin` has 32 bits of the number's 64: ages up to 2^31 can be told apart.
fn is_since(transaction: &str) -> String {
    format!(
        "(age(t.xmin) <= (SELECT CASE WHEN x.now - {transaction}::text::bigint > 2147483646 \
                                      THEN 2147483647 ELSE age({transaction}::xid) END \
                            FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint) \
                              AS x(now)))"
    )
}

/// Which rows of the table are to be published. `seen_before`: what the first try could see.
pub(super) fn wanted(table: &JobTable, id: Option<&str>, seen_before: Option<&str>) -> String {
    let xid8 = |number: &str| format!("'{}'::xid8", number.replace('\'', ""));
    let mut terms = Vec::new();
    if let Some(since) = &table.since {
        terms.push(is_since(&xid8(since)));
    }
    if let Some(seen) = seen_before {
        let is_new = is_since(&xid8(seen));
        match (table.is_done, table.last_id.zip(id)) {
            (true, _) => terms.push(is_new),
            (false, Some((last, id))) => terms.push(format!("(t.{id} > {last} OR {is_new})")),
            (false, None) => {}
        }
    }
    match terms.is_empty() {
        true => "true".to_owned(),
        false => terms.join(" AND "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_try_leaves_out_what_the_first_has_published() {
        let check = |table: JobTable, seen: Option<&str>, parts: &[&str]| {
            let sql = wanted(&table, Some("\"id\""), seen);
            for part in parts {
                assert!(sql.contains(part), "{sql}");
            }
            assert_eq!(sql == "true", parts.is_empty(), "{sql}");
        };
        check(JobTable::default(), None, &[]);
        check(JobTable::default(), Some("7"), &[]);
        let begun = JobTable { last_id: Some(5), ..JobTable::default() };
        check(begun, Some("7"), &["t.\"id\" > 5 OR", "'7'::xid8"]);
        let recover = JobTable { since: Some("3".to_owned()), ..JobTable::default() };
        check(recover, None, &["'3'::xid8"]);
        let done = JobTable { is_done: true, last_id: Some(5), ..JobTable::default() };
        assert!(!wanted(&done, Some("id"), Some("7")).contains("> 5"));
    }
}
