//! Traces that show later whether a table was always in the publication: the same traces that are
//! stored with a promise ([`crate::progress::coverage`]), for a time without a promise.

use std::collections::HashMap;

use tokio_postgres::{Error, GenericClient, Row};

use super::coverage::{columns, entries, is_logged, leaves, table_state};
use crate::config::TableName;

/// The traces of a table.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The table that has the name.
    pub outbox: u32,
    /// What puts it into the publication, and in which state both are.
    state: String,
    /// The TOAST tables of its partitions.
    leaves: HashMap<String, u32>,
}

impl Trace {
    /// Partitions may be added and dropped, but one that stays must not have been rewritten.
    fn has_same_leaves(&self, then: &Trace) -> bool {
        self.leaves.iter().all(|(leaf, toast)| then.leaves.get(leaf).is_none_or(|it| it == toast))
    }
}

/// Whether nothing has happened to the tables in between.
pub(crate) fn are_same(before: &[Trace], after: &[Trace]) -> bool {
    let is_same = |(before, after): (&Trace, &Trace)| {
        let same_table = (before.outbox, &before.state) == (after.outbox, &after.state);
        same_table && before.has_same_leaves(after)
    };
    before.len() == after.len() && before.iter().zip(after).all(is_same)
}

/// The traces of these tables, in their order. A table that the slot would not have rows of has
/// none.
pub(crate) async fn traces(
    client: &impl GenericClient,
    publication: &str,
    tables: &[TableName],
) -> Result<Vec<Trace>, Error> {
    const SQL: &str = concat!(
        "SELECT k.oid, concat_ws(' ', e.membership, b.xmin, ",
        table_state!(),
        "), ",
        leaves!(),
        "::text FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS t (schema, name, number) \
           JOIN pg_namespace n ON n.nspname = t.schema \
           JOIN pg_class k ON k.relnamespace = n.oid AND k.relname = t.name AND ",
        is_logged!(),
        "  JOIN pg_type y ON y.oid = k.reltype \
           JOIN pg_publication b ON b.pubname = $1 AND b.pubinsert \
          CROSS JOIN LATERAL (SELECT * FROM (",
        entries!(),
        ") AS e ORDER BY e.rank LIMIT 1) AS e ORDER BY t.number"
    );
    let (schemas, names) = columns(tables);
    let rows = client.query(SQL, &[&publication, &schemas, &names]).await?;
    let read = |row: &Row| {
        let leaves: Option<&str> = row.try_get(2)?;
        let leaves = leaves.and_then(|leaves| serde_json::from_str(leaves).ok());
        let leaves = leaves.unwrap_or_default();
        Ok(Trace { outbox: row.try_get(0)?, state: row.try_get(1)?, leaves })
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_come_and_go_and_the_rest_stays() {
        let trace = |outbox, state: &str, leaves: &[(&str, u32)]| Trace {
            outbox,
            state: state.to_owned(),
            leaves: leaves.iter().map(|(leaf, toast)| ((*leaf).to_owned(), *toast)).collect(),
        };
        let before = [trace(1, "a", &[("5", 6), ("7", 8)])];
        let check = |after: &[Trace], expect| assert_eq!(are_same(&before, after), expect);
        check(&before, true);
        check(&[trace(1, "a", &[("7", 8), ("9", 10)])], true);
        check(&[trace(1, "a", &[("5", 16), ("7", 8)])], false);
        check(&[trace(1, "b", &[("5", 6), ("7", 8)])], false);
        check(&[trace(2, "a", &[("5", 6), ("7", 8)])], false);
        check(&[], false);
    }
}
