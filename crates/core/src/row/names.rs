//! What our columns are called in a table that existed before postrider.

use super::Column;

/// The names that one table has for our columns. Two of ours may read the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames {
    /// By [`Column::index`]. None: our own name; an empty name: the table has no such column.
    mapped: [Option<String>; Column::ALL.len() + 1],
}

impl ColumnNames {
    /// Debezium's outbox layout: `id, aggregatetype, aggregateid, type, payload`.
    pub fn debezium() -> Self {
        let mut names = ColumnNames::default();
        for (column, name) in [
            (Column::Id, "id"),
            (Column::IdempotencyKey, "id"),
            (Column::Topic, "aggregatetype"),
            (Column::OrderingKey, "aggregateid"),
            (Column::Type, "type"),
            (Column::Payload, "payload"),
        ] {
            names.map(column, name.to_owned());
        }
        names
    }

    /// The table has `column` under this name; an empty name: it has no such column.
    pub fn map(&mut self, column: Column, name: String) {
        if let Some(mapped) = self.mapped.get_mut(column.index()) {
            *mapped = Some(name);
        }
    }

    /// What the table calls it; empty if it has none.
    pub fn of(&self, column: Column) -> &str {
        self.mapped(column).unwrap_or(column.name())
    }

    /// The name that the configuration maps it to, if it does.
    pub fn mapped(&self, column: Column) -> Option<&str> {
        self.mapped.get(column.index()).and_then(Option::as_deref)
    }

    /// Our columns that read the table's column of this name.
    pub fn readers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Column> + 'a {
        Column::ALL.into_iter().filter(move |column| self.of(*column) == name)
    }

    /// Whether the table must have it: every event must have it, or the configuration maps it to a
    /// name.
    pub fn is_wanted(&self, column: Column) -> bool {
        column.is_required() || self.mapped(column).is_some_and(|name| !name.is_empty())
    }

    /// The column for people: its name in the table, and ours if that is different.
    pub fn describe(&self, column: Column) -> String {
        match self.mapped(column) {
            Some(name) if name != column.name() => format!("\"{name}\" (our {})", column.name()),
            _ => format!("\"{}\"", column.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_our_name_unless_it_is_mapped() {
        let mut names = ColumnNames::debezium();
        names.map(Column::Topic, "destination".to_owned());
        assert_eq!(names.of(Column::Topic), "destination");
        assert_eq!(names.of(Column::OrderingKey), "aggregateid");
        assert_eq!((names.of(Column::Tenant), names.mapped(Column::Tenant)), ("tenant", None));
        let readers: Vec<_> = names.readers("id").collect();
        assert_eq!(readers, [Column::Id, Column::IdempotencyKey]);
        assert_eq!(names.readers("topic").count(), 0);
        let wanted = |column| names.is_wanted(column);
        assert_eq!([Column::Payload, Column::Id, Column::Tenant].map(wanted), [true, true, false]);
        assert!(ColumnNames::default().is_wanted(Column::Topic));
        names.map(Column::Id, String::new());
        assert!(!names.is_wanted(Column::Id));
        assert_eq!(names.readers("id").collect::<Vec<_>>(), [Column::IdempotencyKey]);
        assert_eq!(names.describe(Column::Topic), "\"destination\" (our topic)");
        assert_eq!(names.describe(Column::IdempotencyKey), "\"id\" (our idempotency_key)");
    }
}
