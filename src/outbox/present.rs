//! The table as the catalog has it now, for rows of a time when it was otherwise.

use super::{Layout, LayoutError};
use crate::pgoutput::{Relation, RelationColumn, RelationId};

/// An outbox table's present columns.
#[derive(Debug, Clone, PartialEq)]
pub struct PresentTable {
    /// Its number in the stream.
    pub id: RelationId,
    /// Names and type OIDs of its columns, in their order.
    pub columns: Vec<(String, u32)>,
}

impl PresentTable {
    /// The layout of configured table number `table`, whose rows the log describes as `relation`.
    ///
    /// The log has each row under the names of its time. A required column that was renamed and
    /// renamed back would make the rows in between unreadable for ever; so they are read under the
    /// present names, where nothing but names is different.
    pub fn layout(&self, table: usize, relation: &Relation<'_>) -> Result<Layout, LayoutError> {
        let then = Layout::new(table, relation);
        match (&then, self.renamed(relation)) {
            (Err(LayoutError::Missing { .. }), Some(now)) => Layout::new(table, &now).or(then),
            _ => then,
        }
    }

    fn renamed<'a>(&'a self, relation: &Relation<'a>) -> Option<Relation<'a>> {
        let types = relation.columns.iter().map(|column| column.type_oid);
        let same = self.id == relation.id && types.eq(self.columns.iter().map(|(_, oid)| *oid));
        let columns = relation.columns.iter().zip(&self.columns);
        same.then(|| Relation {
            columns: columns
                .map(|(column, (name, _))| RelationColumn { name, ..*column })
                .collect(),
            ..*relation
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u32 = 25;
    const JSON: u32 = 114;

    fn check(id: RelationId, then: &[(&str, u32)], now: &[(&str, u32)], readable: bool) {
        let columns = then.iter().map(|&(name, type_oid)| RelationColumn {
            flags: 0,
            name,
            type_oid,
            type_modifier: -1,
        });
        let relation = Relation {
            id: 7,
            schema: "public",
            name: "outbox",
            replica_identity: b'd',
            columns: columns.collect(),
        };
        let owned = now.iter().map(|&(name, oid)| (name.to_owned(), oid));
        let present = PresentTable { id, columns: owned.collect() };
        let layout = present.layout(0, &relation);
        assert_eq!(layout.is_ok(), readable, "{then:?} read as {now:?}");
    }

    #[test]
    fn present_names_help_only_where_names_are_all_that_differs() {
        let now = [("topic", TEXT), ("payload", JSON)];
        check(7, &[("subject", TEXT), ("payload", JSON)], &now, true);
        check(8, &[("subject", TEXT), ("payload", JSON)], &now, false);
        check(7, &[("subject", JSON), ("payload", JSON)], &now, false);
        check(7, &[("payload", JSON)], &now, false);
        let gone = [("subject", TEXT), ("payload", JSON)];
        check(7, &gone, &gone, false);
        // Names of the row's own time go first.
        check(7, &now, &gone, true);
    }
}
