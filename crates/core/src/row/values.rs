//! A row's values by meaning.

use std::borrow::Cow;

use super::event::is_legal_topic;
use super::layout::Kind;
use super::{Column, Layout, MessageFault, RowFault};
use crate::pgoutput::{DecodeError, PgTime, Tuple, TupleValue};
use crate::transaction::Position;

/// Ids longer than this are cut in messages.
const ID_SHOWN_CHARS: usize = 100;

/// One inserted row of an outbox table, or a message; its values are borrowed from the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// The table's index in the configuration.
    pub table: usize,
    /// Its position in the log.
    pub position: Position,
    /// When it was committed.
    pub commit_time: PgTime,
    pub(super) fields: [Option<(Kind, TupleValue<'a>)>; Column::ALL.len()],
    /// Why it is not an event at all; only a message can have this fault.
    pub(super) fault: Option<Box<MessageFault>>,
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
        if usize::from(tuple.columns()) != layout.roles.len() {
            return Err(DecodeError::ColumnCount {
                announced: layout.roles.len(),
                found: tuple.columns().into(),
            });
        }
        let mut roles = layout.roles.iter();
        for value in tuple.values() {
            let value = value?;
            let Some(Some((column, kind))) = roles.next() else {
                continue;
            };
            if let Some(field) = fields.get_mut(column.index()) {
                *field = Some((*kind, value));
            }
        }
        for (first, other) in &layout.shared {
            let value = fields.get(first.index()).copied().flatten();
            if let Some(field) = fields.get_mut(other.index()) {
                *field = value;
            }
        }
        Ok(Row { table: layout.table, position, commit_time, fields, fault: None })
    }

    /// A required column that the table did not have yet. A row without a payload column would be
    /// taken for a tombstone.
    pub fn absent(&self) -> Option<RowFault> {
        let is_absent =
            |column: &Column| self.fields.get(column.index()).is_none_or(Option::is_none);
        let mut required = Column::ALL.into_iter().filter(|column| column.is_required());
        required.find(is_absent).map(RowFault::Absent)
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
        match self.fields.get(column.index()).copied().flatten() {
            Some((_, TupleValue::Text(bytes) | TupleValue::Binary(bytes))) => bytes.len(),
            _ => 0,
        }
    }

    /// A column as bytes: text as it is, bytea decoded, jsonb as JSON text.
    pub fn bytes(&self, column: Column) -> Result<Option<Cow<'a, [u8]>>, RowFault> {
        let Some((kind, value)) = self.fields.get(column.index()).copied().flatten() else {
            return Ok(None);
        };
        match value {
            TupleValue::Null => Ok(None),
            TupleValue::UnchangedToast => Err(RowFault::ValueMissing(column)),
            TupleValue::Text(text) => from_text(column, kind, text).map(Some),
            TupleValue::Binary(bytes) => from_binary(column, kind, bytes).map(Some),
        }
    }

    /// A column as text.
    pub fn text(&self, column: Column) -> Result<Option<Cow<'a, str>>, RowFault> {
        let not_text = || RowFault::NotText(column);
        match self.bytes(column)? {
            None => Ok(None),
            Some(Cow::Borrowed(bytes)) => {
                std::str::from_utf8(bytes).map(|text| Some(text.into())).map_err(|_| not_text())
            }
            Some(Cow::Owned(bytes)) => {
                String::from_utf8(bytes).map(|text| Some(text.into())).map_err(|_| not_text())
            }
        }
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

    /// Its topic when something is wrong with it. An illegal name is not shown: an INSERT that
    /// mixed up its values could have put the payload there.
    pub fn topic_for_log(&self) -> String {
        match self.text(Column::Topic) {
            Ok(Some(topic)) if is_legal_topic(&topic) => topic.into_owned(),
            Ok(Some(topic)) => format!("(an illegal name of {} bytes)", topic.len()),
            _ => "(none)".to_owned(),
        }
    }
}

fn from_text<'a>(column: Column, kind: Kind, text: &'a [u8]) -> Result<Cow<'a, [u8]>, RowFault> {
    match kind {
        Kind::Bytea => unhex(text)
            .map(Cow::Owned)
            .ok_or(RowFault::Unreadable { column, expected: "bytea in hex format" }),
        _ => Ok(Cow::Borrowed(text)),
    }
}

fn from_binary<'a>(column: Column, kind: Kind, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, RowFault> {
    let unreadable = |expected| RowFault::Unreadable { column, expected };
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
