//! The table as the catalog has it now, for rows that were written when it was different.

use super::{ColumnNames, Layout, LayoutError};
use crate::connect::ColumnType;
use crate::pgoutput::{Relation, RelationColumn, RelationId};

/// An outbox table's present columns.
#[derive(Debug, Clone, PartialEq)]
pub struct PresentTable {
    /// Its number in the stream.
    pub id: RelationId,
    /// Those of its partitions.
    pub partitions: Vec<RelationId>,
    /// Its published columns, in their order.
    pub columns: Vec<PresentColumn>,
}

/// A column as the catalog has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
}

impl PresentTable {
    /// Whether the log's relation is this table, whatever it was called then.
    pub fn is(&self, id: RelationId) -> bool {
        self.id == id || self.partitions.contains(&id)
    }

    /// The type of a published column.
    pub fn column(&self, name: &str) -> Option<&ColumnType> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(&column.column_type)
    }

    /// The type of a column of the log's relation, with what the catalog has on it now.
    pub fn column_then(&self, relation: &Relation<'_>, name: &str) -> Option<ColumnType> {
        let then = relation.columns.iter().find(|column| column.name == name)?;
        let (type_oid, type_modifier) = (then.type_oid, then.type_modifier);
        Some(match self.column(name) {
            // That of a domain is only in the catalog.
            Some(now) if now.type_oid == type_oid && type_modifier < 0 => now.clone(),
            Some(now) if now.type_oid == type_oid => ColumnType { type_modifier, ..now.clone() },
            _ => ColumnType { type_oid, type_modifier, ..ColumnType::default() },
        })
    }

    /// Whether a column of the log's relation is described as the catalog had it.
    pub fn has_as_it_is(&self, column: &RelationColumn<'_>) -> bool {
        self.column(column.name).is_some_and(|now| {
            let same_modifier =
                column.type_modifier < 0 || column.type_modifier == now.type_modifier;
            now.type_oid == column.type_oid && same_modifier
        })
    }

    /// The layout of configured table number `table`, whose rows the log describes as `relation`.
    ///
    /// The log has each row under the names of its time. A wanted column that was renamed and
    /// renamed back would make the rows in between unreadable forever; so they are read under the
    /// present names, if nothing but names is different. A column may also be newer than the row,
    /// which then lacks it: if an event must have it, that is a fault of the row.
    pub fn layout(
        &self,
        table: usize,
        relation: &Relation<'_>,
        names: &ColumnNames,
    ) -> Result<Layout, LayoutError> {
        let then = Layout::new(table, relation, names);
        let Err(LayoutError::Missing { table: name, column }) = then else { return then };
        let renamed = self.renamed(relation).map(|now| Layout::new(table, &now, names));
        if let Some(Ok(layout)) = renamed {
            return Ok(layout);
        }
        if !self.has_all_wanted(names) {
            return Err(LayoutError::Missing { table: name, column });
        }
        // If none is gone, columns were only added since. If some are, the catalog does not show
        // whether they were renamed or dropped: a dropped column in it may be older than these
        // rows.
        match self.gone(relation) {
            gone if gone.is_empty() => Layout::of_what_is_there(table, relation, names),
            gone => Err(LayoutError::Younger { table: name, column, gone }),
        }
    }

    /// The columns that the table no longer has.
    fn gone(&self, relation: &Relation<'_>) -> String {
        let is_here = |name: &str| self.column(name).is_some();
        let gone = relation.columns.iter().filter(|column| !is_here(column.name));
        let gone: Vec<String> = gone.map(|column| format!("\"{}\"", column.name)).collect();
        gone.join(", ")
    }

    /// A wanted column that the table lacks now can't be newer than its rows.
    fn has_all_wanted(&self, names: &ColumnNames) -> bool {
        let is_here = |name: &str| self.column(name).is_some();
        names.wanted().all(|(name, _)| is_here(name))
    }

    fn renamed<'a>(&'a self, relation: &Relation<'a>) -> Option<Relation<'a>> {
        let types = relation.columns.iter().map(|column| column.type_oid);
        let same = self.id == relation.id
            && types.eq(self.columns.iter().map(|it| it.column_type.type_oid));
        let columns = relation.columns.iter().zip(&self.columns);
        same.then(|| Relation {
            columns: columns
                .map(|(column, present)| RelationColumn { name: &present.name, ..*column })
                .collect(),
            ..*relation
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    const TEXT: u32 = 25;
    const JSON: u32 = 114;

    fn check(
        id: RelationId,
        names: &ColumnNames,
        then: &[(&str, u32)],
        now: &[(&str, u32)],
        readable: bool,
    ) {
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
        let columns = now.iter().map(|&(name, type_oid)| PresentColumn {
            name: name.to_owned(),
            column_type: ColumnType { type_oid, ..ColumnType::default() },
        });
        let present = PresentTable { id, partitions: Vec::new(), columns: columns.collect() };
        let layout = present.layout(0, &relation, names);
        assert_eq!(layout.is_ok(), readable, "{then:?} read as {now:?}");
    }

    #[test]
    fn present_names_help_only_where_names_are_all_that_differs() {
        let names = ColumnNames::default();
        let now = [("topic", TEXT), ("payload", JSON)];
        check(7, &names, &[("subject", TEXT), ("payload", JSON)], &now, true);
        check(8, &names, &[("subject", TEXT), ("payload", JSON)], &now, false);
        check(7, &names, &[("subject", JSON), ("payload", JSON)], &now, false);
        let gone = [("subject", TEXT), ("payload", JSON)];
        check(7, &names, &gone, &gone, false);
        // Names of the row's own time go first.
        check(7, &names, &now, &gone, true);
        // Added since, but not if the table lacks it now.
        check(7, &names, &[("payload", JSON)], &now, true);
        check(7, &names, &[("topic", TEXT)], &now, true);
        check(7, &names, &[("payload", JSON)], &[("payload", JSON), ("tenant", TEXT)], false);
    }

    #[test]
    fn mapped_columns_may_be_renamed_too_or_be_younger_than_the_row() {
        let mut names = ColumnNames::default();
        names.map(Column::Topic, "destination".to_owned());
        names.map(Column::OrderingKey, "customer".to_owned());
        let now = [("destination", TEXT), ("payload", JSON), ("customer", TEXT)];
        check(7, &names, &[("subject", TEXT), ("payload", JSON), ("customer", TEXT)], &now, true);
        check(7, &names, &[("destination", TEXT), ("payload", JSON), ("buyer", TEXT)], &now, true);
        // Added since.
        check(7, &names, &[("payload", JSON), ("destination", TEXT)], &now, true);
        // Renamed or dropped since: nobody knows.
        let then = [("payload", JSON), ("destination", TEXT), ("buyer", TEXT)];
        check(7, &names, &then, &now, false);
    }
}
