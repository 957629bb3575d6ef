//! What can be wrong with a row. The text names the column and the rule, never the payload.

use super::{Column, MessageFault};
use crate::delivery::Reason;

/// Why a row can't become a record. Sending it again would not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// A required column is NULL.
    #[error("column \"{}\" is NULL", .0.name())]
    Null(Column),
    /// A required column that is newer than the row.
    #[error("the table had no column \"{}\" when the row was written", .0.name())]
    Absent(Column),
    /// A text column holds bytes that are not UTF-8.
    #[error("column \"{}\" is not UTF-8 text", .0.name())]
    NotText(Column),
    /// A value that its type does not allow.
    #[error("column \"{}\" holds a value that can't be read as {expected}", .column.name())]
    Unreadable {
        /// The column.
        column: Column,
        /// What it should have been.
        expected: &'static str,
    },
    /// A large value that did not come with the row.
    #[error("column \"{}\" arrived without its value (unchanged TOAST in an insert)", .0.name())]
    ValueMissing(Column),
    /// A topic name that Kafka does not allow.
    #[error(
        "topic name is illegal: Kafka allows 1 to 249 of the characters a-z A-Z 0-9 . _ - \
         and neither \".\" nor \"..\""
    )]
    IllegalTopic,
    /// Headers that are not a JSON object.
    #[error("column \"headers\" is not a JSON object")]
    HeadersNotObject,
    /// A header name that can't be sent.
    #[error("column \"headers\" has a name with a NUL character")]
    HeaderName,
    /// A column that is larger than any event needs.
    #[error("column \"{}\" has {bytes} bytes: at most {limit} are published", .column.name())]
    ColumnTooLarge {
        /// The column.
        column: Column,
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A negative partition.
    #[error("column \"partition\" is {0}: it must be 0 or more")]
    NegativePartition(i64),
    /// A message with our prefix that is not an event.
    #[error("this is not a message that postrider.emit has written: {0}")]
    Malformed(MessageFault),
    /// A record that its topic does not accept.
    #[error(
        "the record has {bytes} bytes, but the topic accepts {limit} (max.message.bytes): raise \
         the topic's max.message.bytes or make the event smaller"
    )]
    TooLarge {
        /// The record's bytes on the wire.
        bytes: usize,
        /// The topic's limit.
        limit: usize,
    },
}

impl RowFault {
    /// Why such an event is parked. It is always dead: the row is in the log for good, so a retry
    /// can't help. A topic's limit could be raised, but then an operator can replay the event.
    pub fn reason(&self) -> Reason {
        match self {
            RowFault::Null(_) | RowFault::Absent(_) => Reason::ColumnNull,
            RowFault::NotText(_) | RowFault::Unreadable { .. } | RowFault::ValueMissing(_) => {
                Reason::ColumnUnreadable
            }
            RowFault::IllegalTopic => Reason::IllegalTopic,
            RowFault::HeadersNotObject | RowFault::HeaderName => Reason::BadHeaders,
            RowFault::NegativePartition(_) => Reason::BadPartition,
            RowFault::Malformed(_) => Reason::Malformed,
            RowFault::TooLarge { .. } | RowFault::ColumnTooLarge { .. } => Reason::TooLarge,
        }
    }

    /// The column that is at fault, if one is.
    pub fn column(&self) -> Option<Column> {
        match self {
            Self::Null(column)
            | Self::Absent(column)
            | Self::NotText(column)
            | Self::ValueMissing(column) => Some(*column),
            Self::Unreadable { column, .. } | Self::ColumnTooLarge { column, .. } => Some(*column),
            Self::IllegalTopic => Some(Column::Topic),
            Self::HeadersNotObject | Self::HeaderName => Some(Column::Headers),
            Self::NegativePartition(_) => Some(Column::Partition),
            Self::Malformed(_) | Self::TooLarge { .. } => None,
        }
    }
}
