//! The first of several columns that is not NULL: a record's key, and what decides its partition.

use std::borrow::Cow;

use super::template::TemplateError;
use crate::row::{Column, ColumnNames, ColumnRef, Row, RowFault, Source};

/// Columns in the order in which they are tried. `C` is as in [`Template`](super::Template).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyList<C = (Source, String)> {
    columns: Vec<C>,
    /// It is not the record's key, but says which events have the same one.
    is_compared: bool,
}

/// The value that was found.
#[derive(Debug, Clone)]
pub struct Key<'a> {
    /// As text.
    pub text: Cow<'a, str>,
    /// Every event has another one, so there is nothing to keep in order.
    pub is_unique: bool,
}

impl<C> Default for KeyList<C> {
    fn default() -> Self {
        KeyList { columns: Vec::new(), is_compared: false }
    }
}

impl KeyList<ColumnRef> {
    /// Reads the names as they were typed.
    pub fn parse<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, TemplateError> {
        let columns = names.map(ColumnRef::parse).collect::<Result<_, _>>()?;
        Ok(KeyList { columns, is_compared: false })
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
        for column in &self.columns {
            match names.source(column, setting) {
                Some(source) => columns.push((source, names.of_source(source).to_owned())),
                None if setting.is_none() => {}
                None => return Err(column.name.clone()),
            }
        }
        Ok(KeyList { columns, is_compared: false })
    }
}

impl KeyList {
    /// These columns of ours.
    pub fn of_columns(columns: &[Column]) -> Self {
        let named = |column: &Column| (Source::Ours(*column), column.name().to_owned());
        KeyList { columns: columns.iter().map(named).collect(), is_compared: false }
    }

    /// The same if it only says which events have the same key: their columns can be of any type.
    pub fn compared(self) -> Self {
        KeyList { is_compared: true, ..self }
    }

    /// The first that is not NULL.
    pub fn find<'a>(&self, row: &Row<'a>) -> Result<Option<Key<'a>>, RowFault> {
        for (source, name) in &self.columns {
            let ours = |column| *source == Source::Ours(column);
            let mut value = match self.is_compared {
                true => row.distinct_text_of(*source, name)?,
                false => row.text_of(*source, name)?,
            };
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
