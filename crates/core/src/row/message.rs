//! Events without a table: what `postrider.emit` writes into the log (ADR 16). No I/O.
//!
//! A message's content is a version and a row as pgoutput has it, with fixed columns; or, in a
//! pack, several of them. So a message is read as rows of a table that does not exist, and these
//! are treated like all rows. Any role that may call `pg_logical_emit_message` can write any bytes
//! under our prefix: those that are not an event become a row with a fault, never an error of the
//! stream.

use super::layout::Kind;
use super::{Column, Layout, Row, Source};
use crate::pgoutput::{DecodeError, PgTime, Tuple, TupleValue};
use crate::transaction::Position;

/// The prefix of our messages.
pub const PREFIX: &[u8] = b"postrider";
/// Used in place of a table's name. No table has this name: theirs have a dot.
pub const MESSAGES: &str = "messages";
/// The version of the content that `migrations/0005_messages.sql` writes.
const VERSION: u8 = 1;
/// The version of a pack, which `migrations/0008_emit_batch.sql` writes: rows follow, one or more.
const PACK_VERSION: u8 = 2;
/// `postrider.emit` writes no larger content. An event without a table has no row to be looked up
/// in later, so it must fit into the side table.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The order of the values of an event.
const COLUMNS: [Column; Column::ALL.len()] = [
    Column::Id,
    Column::Topic,
    Column::Payload,
    Column::IdempotencyKey,
    Column::OrderingKey,
    Column::Type,
    Column::ContentType,
    Column::Tenant,
    Column::Partition,
    Column::Headers,
    Column::Traceparent,
];

/// Why a message with our prefix is not an event. Never contains its content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// Not a version that this relay knows.
    #[error("its version is {0}, but this relay reads versions {VERSION} and {PACK_VERSION}")]
    Version(u8),
    /// Not the values that its version has.
    #[error("{0}")]
    Content(DecodeError),
    /// More than the side table takes.
    #[error("it has {0} bytes, but at most {MESSAGE_BYTES_MAX} are allowed")]
    TooLarge(usize),
}

impl Layout {
    /// The layout of messages, as if they were rows of configured table number `table`.
    pub fn of_messages(table: usize) -> Self {
        // A bytea payload is written as it is, too.
        let roles = COLUMNS.map(|column| Some((Source::Ours(column), Kind::Text)));
        Layout { table, roles: roles.to_vec(), shared: Vec::new(), others: 0, typed: None }
    }
}

impl<'a> Row<'a> {
    /// Reads a message's content by the layout of messages.
    pub fn of_message(
        layout: &Layout,
        content: &'a [u8],
        position: Position,
        commit_time: PgTime,
    ) -> Self {
        read(layout, content, position, commit_time)
            .unwrap_or_else(|fault| no_event(layout, content, position, commit_time, fault))
    }

    /// Reads the first event of a [`pack`] by the layout of messages; returns it and its length. If
    /// it can't be read, it is unknown where the next one begins: all of the bytes become one row
    /// with a fault.
    pub fn of_pack(
        layout: &Layout,
        pack: &'a [u8],
        position: Position,
        commit_time: PgTime,
    ) -> (Self, usize) {
        first(layout, pack, position, commit_time).unwrap_or_else(|fault| {
            (no_event(layout, pack, position, commit_time, fault), pack.len())
        })
    }
}

/// The events of a message that holds any number of them. An empty pack is not one.
pub fn pack(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[PACK_VERSION]).filter(|events| !events.is_empty())
}

/// A row of which nothing is known but its bytes.
fn no_event<'a>(
    layout: &Layout,
    bytes: &'a [u8],
    position: Position,
    commit_time: PgTime,
    fault: MessageFault,
) -> Row<'a> {
    let mut fields = [None; Column::ALL.len()];
    // For people to read.
    if let Some(field) = fields.get_mut(Column::Payload.index()) {
        *field = Some((Kind::Text, TupleValue::Text(bytes)));
    }
    Row {
        table: layout.table,
        position,
        commit_time,
        fields,
        others: Vec::new(),
        typed: None,
        fault: Some(Box::new(fault)),
    }
}

fn read<'a>(
    layout: &Layout,
    content: &'a [u8],
    position: Position,
    commit_time: PgTime,
) -> Result<Row<'a>, MessageFault> {
    if content.len() > MESSAGE_BYTES_MAX {
        return Err(MessageFault::TooLarge(content.len()));
    }
    match content.split_first() {
        None | Some((&PACK_VERSION, [])) => Err(MessageFault::Empty),
        Some((&VERSION, values)) => Tuple::of(values)
            .and_then(|values| Row::read(layout, &values, position, commit_time))
            .map_err(MessageFault::Content),
        Some((version, _)) => Err(MessageFault::Version(*version)),
    }
}

fn first<'a>(
    layout: &Layout,
    pack: &'a [u8],
    position: Position,
    commit_time: PgTime,
) -> Result<(Row<'a>, usize), MessageFault> {
    let (values, rest) = Tuple::first(pack).map_err(MessageFault::Content)?;
    let bytes = pack.len() - rest.len();
    // Alone it would have a version, too.
    if bytes + 1 > MESSAGE_BYTES_MAX {
        return Err(MessageFault::TooLarge(bytes + 1));
    }
    let row = Row::read(layout, &values, position, commit_time).map_err(MessageFault::Content)?;
    Ok((row, bytes))
}

#[cfg(test)]
mod tests;
