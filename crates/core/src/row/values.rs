//! A row's values by meaning.

use std::borrow::Cow;
use std::sync::Arc;

use super::column::OTHER_BYTES_MAX;
use super::fault::ColumnFault;
use super::layout::Kind;
use super::{Column, Layout, MessageFault, RowFault, Source};
use crate::connect::TypedColumns;
use crate::pgoutput::{DecodeError, PgTime, Tuple, TupleValue};
use crate::transaction::Position;

/// Ids longer than this are cut in messages.
const ID_SHOWN_CHARS: usize = 100;

/// A value and how to understand it.
pub(super) type Field<'a> = (Kind, TupleValue<'a>);

/// One inserted row of an outbox table, or a message; its values are borrowed from the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// The table's index in the configuration.
    pub table: usize,
    /// Its position in the log.
    pub position: Position,
    /// When it was committed.
    pub commit_time: PgTime,
    pub(super) fields: [Option<Field<'a>>; Column::ALL.len()],
    /// The table's other columns that are read, by their [`Source`].
    pub(super) others: Vec<Option<Field<'a>>>,
    /// The types of columns that are published as Debezium does.
    pub(super) typed: Option<Arc<TypedColumns>>,
    /// Why it is not an event at all; only a message can have this fault.
    pub(crate) fault: Option<Box<MessageFault>>,
}

impl<'a> Row<'a> {
    /// Sorts a row's values by the table's layout.
    pub fn read(
        layout: &Layout,
        tuple: &Tuple<'a>,
        position: Position,
        commit_time: PgTime,
    ) -> Result<Self, DecodeError> {
        let mut fields = [None; Column::ALL.len()];
        // No allocation for a table without others.
        let mut others = vec![None; layout.others];
        if usize::from(tuple.columns()) != layout.roles.len() {
            return Err(DecodeError::ColumnCount {
                announced: layout.roles.len(),
                found: tuple.columns().into(),
            });
        }
        let mut roles = layout.roles.iter();
        for value in tuple.values() {
            let value = value?;
            let Some(Some((source, kind))) = roles.next() else {
                continue;
            };
            let field = match source {
                Source::Ours(column) => fields.get_mut(column.index()),
                Source::Other(place) => others.get_mut(*place),
            };
            if let Some(field) = field {
                *field = Some((*kind, value));
            }
        }
        for (first, other) in &layout.shared {
            let value = fields.get(first.index()).copied().flatten();
            if let Some(field) = fields.get_mut(other.index()) {
                *field = value;
            }
        }
        let (table, typed) = (layout.table, layout.typed.clone());
        Ok(Row { table, position, commit_time, fields, others, typed, fault: None })
    }

    /// Whether the table had the column when the row was written.
    pub fn has(&self, source: Source) -> bool {
        self.field(source).is_some()
    }

    /// The same for one of ours.
    pub fn has_column(&self, column: Column) -> bool {
        self.has(Source::Ours(column))
    }

    /// Whether the column's type is json or jsonb, so that its value is JSON.
    pub fn is_json(&self, column: Column) -> bool {
        let field = self.field(Source::Ours(column));
        field.is_some_and(|(kind, _)| matches!(kind, Kind::Json | Kind::Jsonb))
    }

    /// Whether the column's type is bytea, so that its value can be any bytes.
    pub fn is_bytes(&self, column: Column) -> bool {
        self.field(Source::Ours(column)).is_some_and(|(kind, _)| *kind == Kind::Bytea)
    }

    fn field(&self, source: Source) -> Option<&Field<'a>> {
        match source {
            Source::Ours(column) => self.fields.get(column.index())?.as_ref(),
            Source::Other(place) => self.others.get(place)?.as_ref(),
        }
    }

    /// A column's value. About half of an event's columns are NULL, so that is decided first.
    fn value(&self, source: Source) -> Option<Field<'a>> {
        self.field(source).filter(|(_, value)| !matches!(value, TupleValue::Null)).copied()
    }

    /// A column that is larger than any event needs, checked before anything is copied. The payload
    /// has limits of its own.
    pub fn too_large(&self) -> Option<RowFault> {
        Column::ALL.into_iter().find_map(|column| {
            let (bytes, limit) = (self.raw_bytes(column), column.bytes_max()?);
            (bytes > limit).then_some(RowFault::ColumnTooLarge { column, bytes, limit })
        })
    }

    /// The length of a value as it came.
    pub fn raw_bytes(&self, column: Column) -> usize {
        self.field(Source::Ours(column)).map_or(0, |field| field_bytes(*field))
    }

    /// A column as bytes: text as it is, bytea decoded, jsonb as JSON text.
    pub fn bytes(&self, column: Column) -> Result<Option<Cow<'a, [u8]>>, RowFault> {
        let Some(field) = self.value(Source::Ours(column)) else { return Ok(None) };
        bytes(field).map(Some).map_err(|fault| fault.of(column))
    }

    /// A column as text.
    pub fn text(&self, column: Column) -> Result<Option<Cow<'a, str>>, RowFault> {
        let Some(field) = self.value(Source::Ours(column)) else { return Ok(None) };
        text(field).map(Some).map_err(|fault| fault.of(column))
    }

    /// Another column of the table as text; `name` is what the table calls it.
    pub fn other_text(&self, place: usize, name: &str) -> Result<Option<Cow<'a, str>>, RowFault> {
        let Some(field) = self.value(Source::Other(place)) else { return Ok(None) };
        let fault = |fault| RowFault::Other { column: name.to_owned(), fault };
        check_size(field).and_then(|()| text(field)).map(Some).map_err(fault)
    }

    /// A column as text; `name` is what the table calls it.
    pub fn text_of(&self, source: Source, name: &str) -> Result<Option<Cow<'a, str>>, RowFault> {
        match source {
            Source::Ours(column) => self.text(column),
            Source::Other(place) => self.other_text(place, name),
        }
    }

    /// The same as bytes.
    pub fn bytes_of(&self, source: Source, name: &str) -> Result<Option<Cow<'a, [u8]>>, RowFault> {
        let place = match source {
            Source::Ours(column) => return self.bytes(column),
            Source::Other(place) => place,
        };
        let Some(field) = self.value(Source::Other(place)) else { return Ok(None) };
        let fault = |fault| RowFault::Other { column: name.to_owned(), fault };
        check_size(field).and_then(|()| bytes(field)).map(Some).map_err(fault)
    }

    /// The types of columns that are published as Debezium does.
    pub(crate) fn typed_columns(&self) -> Option<&TypedColumns> {
        self.typed.as_deref()
    }

    /// What to call the row when something is wrong with it.
    pub fn id_for_log(&self) -> String {
        match self.text(Column::Id) {
            Ok(Some(id)) => id.chars().take(ID_SHOWN_CHARS).collect(),
            _ => format!(
                "(no id; commit {}, change {}, event {})",
                self.position.commit_lsn, self.position.change_lsn, self.position.ordinal
            ),
        }
    }
}

/// The partition that the row asks for.
pub fn explicit_partition(row: &Row<'_>) -> Result<Option<i32>, RowFault> {
    let column = Column::Partition;
    let Some(text) = row.text(column)? else {
        return Ok(None);
    };
    let unreadable = |_| RowFault::Unreadable { column, expected: "a 32-bit integer" };
    let number: i64 = text.parse().map_err(unreadable)?;
    if number < 0 {
        return Err(RowFault::NegativePartition(number));
    }
    i32::try_from(number)
        .map(Some)
        .map_err(|_| RowFault::Unreadable { column, expected: "a 32-bit integer" })
}

/// Nobody needs larger columns that are not ours.
fn check_size(field: Field<'_>) -> Result<(), ColumnFault> {
    match field_bytes(field) {
        bytes if bytes > OTHER_BYTES_MAX => {
            Err(ColumnFault::TooLarge { bytes, limit: OTHER_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

fn field_bytes((_, value): Field<'_>) -> usize {
    match value {
        TupleValue::Text(bytes) | TupleValue::Binary(bytes) => bytes.len(),
        TupleValue::Null | TupleValue::UnchangedToast => 0,
    }
}

fn bytes((kind, value): Field<'_>) -> Result<Cow<'_, [u8]>, ColumnFault> {
    match value {
        TupleValue::Null => Err(ColumnFault::Null),
        TupleValue::UnchangedToast => Err(ColumnFault::ValueMissing),
        TupleValue::Text(text) => from_text(kind, text),
        TupleValue::Binary(bytes) => from_binary(kind, bytes),
    }
}

fn text(field: Field<'_>) -> Result<Cow<'_, str>, ColumnFault> {
    let text = match field {
        // Nearly every column; the same as below, with less to decide.
        (Kind::Text, TupleValue::Text(text) | TupleValue::Binary(text)) => borrowed(text),
        _ => match bytes(field)? {
            Cow::Borrowed(text) => borrowed(text),
            Cow::Owned(text) => String::from_utf8(text).map(Cow::Owned).ok(),
        },
    };
    text.ok_or(ColumnFault::NotText)
}

fn borrowed(text: &[u8]) -> Option<Cow<'_, str>> {
    std::str::from_utf8(text).map(Cow::Borrowed).ok()
}

fn from_text(kind: Kind, text: &[u8]) -> Result<Cow<'_, [u8]>, ColumnFault> {
    match kind {
        Kind::Bytea => {
            unhex(text).map(Cow::Owned).ok_or(ColumnFault::Unreadable("bytea in hex format"))
        }
        // As a cast to text has it.
        Kind::Bool => match text {
            b"t" => Ok(Cow::Borrowed(b"true")),
            b"f" => Ok(Cow::Borrowed(b"false")),
            _ => Err(ColumnFault::Unreadable("a boolean")),
        },
        _ => Ok(Cow::Borrowed(text)),
    }
}

fn from_binary(kind: Kind, bytes: &[u8]) -> Result<Cow<'_, [u8]>, ColumnFault> {
    let unreadable = ColumnFault::Unreadable;
    match kind {
        Kind::Text | Kind::Json | Kind::Bytea => Ok(Cow::Borrowed(bytes)),
        // jsonb's send form is a version number, always 1, and the text.
        Kind::Jsonb => match bytes.split_first() {
            Some((1, text)) => Ok(Cow::Borrowed(text)),
            _ => Err(unreadable("jsonb version 1")),
        },
        Kind::Integer => integer(bytes)
            .map(|number| Cow::Owned(number.to_string().into_bytes()))
            .ok_or(unreadable("an integer")),
        Kind::Bool => match bytes {
            [1] => Ok(Cow::Borrowed(b"true")),
            [0] => Ok(Cow::Borrowed(b"false")),
            _ => Err(unreadable("a boolean")),
        },
        Kind::Uuid => uuid(bytes).map(Cow::Owned).ok_or(unreadable("a uuid")),
        Kind::Other => Err(unreadable("a built-in type's binary form")),
    }
}

fn integer(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        2 => bytes.try_into().ok().map(i16::from_be_bytes).map(i64::from),
        4 => bytes.try_into().ok().map(i32::from_be_bytes).map(i64::from),
        8 => bytes.try_into().ok().map(i64::from_be_bytes),
        _ => None,
    }
}

fn uuid(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    let mut text = Vec::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        text.push(hex_digit(byte >> 4));
        text.push(hex_digit(byte & 0x0F));
    }
    Some(text)
}

fn hex_digit(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    }
}

/// The session asks for `bytea_output = hex`, whatever the database's default.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"\\x")?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    pairs.iter().map(|[high, low]| u8::try_from(nibble(*high)? << 4 | nibble(*low)?).ok()).collect()
}
