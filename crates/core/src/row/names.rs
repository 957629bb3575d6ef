//! What our columns are called in a table that existed before postrider.

use super::{Column, Source};

/// The names that one table has for our columns, two of which may read the same; and the table's
/// other columns that its route reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames {
    /// By [`Column::index`]. None: our own name; an empty name: the table has no such column.
    mapped: [Option<String>; Column::ALL.len() + 1],
    /// The table's other columns that are read: [`Source::Other`] is a place in this list.
    others: Vec<String>,
    /// Columns that settings name, so that the table must have them, with these settings.
    named: Vec<(Source, String)>,
    /// The route needs no topic column.
    topicless: bool,
    /// Mapped columns that the table may lack.
    optional: Vec<Column>,
    /// Keys can be of any type.
    any_key: bool,
}

/// A column as a setting names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRef {
    /// The name, folded to lower case unless it was quoted, as SQL does.
    pub name: String,
    /// It was quoted, so it is a name of the table's and not one of ours.
    pub is_quoted: bool,
}

impl ColumnNames {
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

    /// The column that a setting names: one of ours, else one of the table's. `setting` is where it
    /// is named, and none if it only is a default, which a table need not have. None: it is one of
    /// ours, and the configuration says that the table does not have it.
    pub fn source(&mut self, column: &ColumnRef, setting: Option<&str>) -> Option<Source> {
        let ours = Column::named(&column.name).filter(|_| !column.is_quoted);
        let theirs = ours.map_or(column.name.as_str(), |ours| self.of(ours)).to_owned();
        if theirs.is_empty() {
            return None;
        }
        // Only what is read from the log has a place of its own in a row.
        let ours = ours.filter(|ours| Column::ALL.contains(ours));
        let ours = ours.or_else(|| self.readers(&theirs).next());
        let source = ours.map_or_else(|| self.other(theirs), Source::Ours);
        if let Some(setting) = setting
            && !self.named.iter().any(|(named, by)| *named == source && by == setting)
        {
            self.named.push((source, setting.to_owned()));
        }
        Some(source)
    }

    fn other(&mut self, name: String) -> Source {
        let known = self.others.iter().position(|other| *other == name);
        Source::Other(known.unwrap_or_else(|| {
            self.others.push(name);
            self.others.len() - 1
        }))
    }

    /// The table's other columns that are read.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Whether the route needs no topic column.
    pub fn set_topicless(&mut self, topicless: bool) {
        self.topicless = topicless;
    }

    /// The table may lack the column, although it is mapped.
    pub fn set_optional(&mut self, column: Column) {
        self.optional.push(column);
    }

    /// The ordering key can be of any type, because it is not the record's key as it is.
    pub fn allow_any_key(&mut self) {
        self.any_key = true;
    }

    /// Whether the type of a column does not matter.
    pub(super) fn takes_any_type(&self, column: Column) -> bool {
        self.any_key && column == Column::OrderingKey
    }

    /// What the table calls the column.
    pub fn of_source(&self, source: Source) -> &str {
        match source {
            Source::Ours(column) => self.of(column),
            Source::Other(place) => self.others.get(place).map_or("", String::as_str),
        }
    }

    /// Columns that settings name, with these settings.
    pub fn named(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().map(|(source, by)| (self.of_source(*source), by.as_str()))
    }

    /// Whether the table's column of this name is read from the log.
    pub fn reads(&self, name: &str) -> bool {
        self.readers(name).next().is_some() || self.others.iter().any(|other| other == name)
    }

    /// The column for people; see [`describe`](Self::describe).
    pub fn describe_source(&self, source: Source) -> String {
        match source {
            Source::Ours(column) => self.describe(column),
            Source::Other(_) => format!("\"{}\"", self.of_source(source)),
        }
    }

    /// The columns of the table that its rows must have, by its names, and described for people.
    pub fn wanted(&self) -> impl Iterator<Item = (&str, String)> {
        let ours = Column::ALL.into_iter().filter(|column| self.is_wanted(*column));
        let ours = ours.map(|column| (self.of(column), self.describe(column)));
        let named = |place: &usize| self.is_named(Source::Other(*place));
        let others = (0..self.others.len()).filter(named);
        ours.chain(others.map(|place| {
            let source = Source::Other(place);
            (self.of_source(source), self.describe_source(source))
        }))
    }

    fn is_named(&self, source: Source) -> bool {
        self.named.iter().any(|(named, _)| *named == source)
    }

    /// Our columns that read the table's column of this name.
    pub fn readers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Column> + 'a {
        Column::ALL.into_iter().filter(move |column| self.of(*column) == name)
    }

    /// Whether the table must have it: every event must have it, or a setting names it or maps it to
    /// a name.
    pub fn is_wanted(&self, column: Column) -> bool {
        let is_needed = column.is_required() && !(self.topicless && column == Column::Topic);
        let is_mapped = self.mapped(column).is_some_and(|name| !name.is_empty())
            && !self.optional.contains(&column);
        is_needed || is_mapped || self.is_named(Source::Ours(column))
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
        let mut names = ColumnNames::default();
        for (column, name) in [
            (Column::Id, "id"),
            (Column::IdempotencyKey, "id"),
            (Column::OrderingKey, "aggregateid"),
        ] {
            names.map(column, name.to_owned());
        }
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
