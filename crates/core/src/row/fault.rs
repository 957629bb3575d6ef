//! What can be wrong with a row. The text names the column and the rule, never the payload.

use super::{Column, MessageFault, Source};
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
    /// The same as [`Null`](Self::Null), [`Absent`](Self::Absent) and so on, about a column of the
    /// table that is not one of ours.
    #[error("column \"{column}\" {fault}")]
    Other {
        /// What the table calls it.
        column: String,
        /// What is wrong with it.
        fault: ColumnFault,
    },
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
    /// Its table is not in the configuration, which can't be.
    #[error("the row's table is not in the configuration")]
    UnknownTable,
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
    /// What a template has made of the row is longer than anything it could be used for.
    #[error("a text that the configuration makes of the row has more than {limit} bytes")]
    TextTooLong {
        /// The limit.
        limit: usize,
    },
    /// A value that the format can't express.
    #[error("column \"{}\" can't be encoded: {why}", .column.name())]
    NotEncodable {
        /// The column.
        column: Column,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An attribute that CloudEvents do not allow.
    #[error("the CloudEvents attribute {attribute} {why}")]
    CloudAttribute {
        /// Its name.
        attribute: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What the configuration names as the schema's id is not one.
    #[error("format.schema_id has to be a number from 0 to 4294967295, but is not for this row")]
    SchemaId,
    /// Only ids of other topics are configured.
    #[error("no schema id is configured for the event's topic; add it to format.schema_ids")]
    NoSchemaForTopic,
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

/// What is wrong with a column of the table that is not one of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnFault {
    /// It is NULL where a value is needed.
    #[error("is NULL")]
    Null,
    /// It is newer than the row, and a value is needed.
    #[error("did not exist when the row was written")]
    Absent,
    /// Its bytes are not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// A value that its type does not allow.
    #[error("holds a value that can't be read as {0}")]
    Unreadable(&'static str),
    /// A large value that did not come with the row.
    #[error("arrived without its value (unchanged TOAST in an insert)")]
    ValueMissing,
    /// A value that can't be expressed.
    #[error("can't be encoded: {0}")]
    NotEncodable(&'static str),
    /// Larger than any event needs.
    #[error("has {bytes} bytes: at most {limit} are published")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

impl ColumnFault {
    /// The same fault of one of our columns.
    pub(super) fn of(self, column: Column) -> RowFault {
        match self {
            Self::Null => RowFault::Null(column),
            Self::Absent => RowFault::Absent(column),
            Self::NotText => RowFault::NotText(column),
            Self::Unreadable(expected) => RowFault::Unreadable { column, expected },
            Self::ValueMissing => RowFault::ValueMissing(column),
            Self::NotEncodable(why) => RowFault::NotEncodable { column, why },
            Self::TooLarge { bytes, limit } => RowFault::ColumnTooLarge { column, bytes, limit },
        }
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Null | Self::Absent => Reason::ColumnNull,
            Self::NotText | Self::Unreadable(_) | Self::ValueMissing => Reason::ColumnUnreadable,
            Self::NotEncodable(_) => Reason::NotEncodable,
            Self::TooLarge { .. } => Reason::TooLarge,
        }
    }
}

impl RowFault {
    /// A fault of a column; `name` is what the table calls it.
    pub(crate) fn of_source(source: Source, name: &str, fault: ColumnFault) -> Self {
        match source {
            Source::Ours(column) => fault.of(column),
            Source::Other(_) => RowFault::Other { column: name.to_owned(), fault },
        }
    }

    /// Why such an event is parked. It is always dead: the row is in the log for good, so a retry
    /// can't help. A topic's limit could be raised, but then an operator can replay the event.
    pub fn reason(&self) -> Reason {
        match self {
            RowFault::Null(_) | RowFault::Absent(_) => Reason::ColumnNull,
            RowFault::NotText(_) | RowFault::Unreadable { .. } | RowFault::ValueMissing(_) => {
                Reason::ColumnUnreadable
            }
            RowFault::Other { fault, .. } => fault.reason(),
            RowFault::IllegalTopic => Reason::IllegalTopic,
            RowFault::HeadersNotObject | RowFault::HeaderName => Reason::BadHeaders,
            RowFault::NotEncodable { .. }
            | RowFault::CloudAttribute { .. }
            | RowFault::SchemaId
            | RowFault::UnknownTable
            | RowFault::NoSchemaForTopic => Reason::NotEncodable,
            RowFault::NegativePartition(_) => Reason::BadPartition,
            RowFault::Malformed(_) => Reason::Malformed,
            RowFault::TooLarge { .. }
            | RowFault::ColumnTooLarge { .. }
            | RowFault::TextTooLong { .. } => Reason::TooLarge,
        }
    }

    /// The column that is at fault, if one is.
    pub fn column(&self) -> Option<Column> {
        match self {
            Self::Null(column)
            | Self::Absent(column)
            | Self::NotText(column)
            | Self::ValueMissing(column) => Some(*column),
            Self::Unreadable { column, .. }
            | Self::ColumnTooLarge { column, .. }
            | Self::NotEncodable { column, .. } => Some(*column),
            Self::HeadersNotObject | Self::HeaderName => Some(Column::Headers),
            Self::NegativePartition(_) => Some(Column::Partition),
            Self::Other { .. }
            | Self::IllegalTopic
            | Self::Malformed(_)
            | Self::TooLarge { .. }
            | Self::TextTooLong { .. }
            | Self::CloudAttribute { .. }
            | Self::SchemaId
            | Self::UnknownTable
            | Self::NoSchemaForTopic => None,
        }
    }
}
