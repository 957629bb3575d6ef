//! The first of several columns that is not NULL: a record's key, and what decides its partition.

use super::template::TemplateError;
use crate::order::Key;
use crate::row::{Column, ColumnNames, ColumnRef, Row, RowFault, Source};

/// Columns in the order in which they are tried. `C` is as in [`Template`](super::Template).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyList<C = (Source, String)>(Vec<C>);

impl<C> Default for KeyList<C> {
    fn default() -> Self {
        KeyList(Vec::new())
    }
}

impl KeyList<ColumnRef> {
    /// Reads the names as they were typed.
    pub fn parse<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, TemplateError> {
        names.map(ColumnRef::parse).collect::<Result<_, _>>().map(KeyList)
    }

    /// The same for a table with these names; see
    /// [`Template::resolve`](super::Template::resolve). Defaults that the table does not have are
    /// left out.
    pub fn resolve(
        &self,
        names: &mut ColumnNames,
        setting: Option<&str>,
    ) -> Result<KeyList, String> {
        let mut columns = Vec::new();
        for column in &self.0 {
            match names.source(column, setting) {
                Some(source) => columns.push((source, names.of_source(source).to_owned())),
                None if setting.is_none() => {}
                None => return Err(column.name.clone()),
            }
        }
        Ok(KeyList(columns))
    }
}

impl KeyList {
    /// These columns of ours.
    pub fn of_columns(columns: &[Column]) -> Self {
        let named = |column: &Column| (Source::Ours(*column), column.name().to_owned());
        KeyList(columns.iter().map(named).collect())
    }

    /// The first that is not NULL.
    pub fn find<'a>(&self, row: &Row<'a>) -> Result<Option<Key<'a>>, RowFault> {
        for (source, name) in &self.0 {
            let ours = |column| *source == Source::Ours(column);
            let mut value = row.text_of(*source, name)?;
            // A row without an idempotency key uses its id.
            if value.is_none() && ours(Column::IdempotencyKey) {
                value = row.text(Column::Id)?;
            }
            if let Some(text) = value {
                let is_unique = ours(Column::IdempotencyKey) || ours(Column::Id);
                return Ok(Some(Key { text, is_unique }));
            }
        }
        Ok(None)
    }
}
