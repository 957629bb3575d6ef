//! The event that is in a row.

use std::borrow::Cow;

use super::{Column, MessageFault, Row, RowFault};
use crate::pgoutput::PgTime;
use crate::transaction::Position;

/// An event, borrowed from its row where possible.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// The table's index in the configuration.
    pub table: usize,
    /// Its position in the log.
    pub position: Position,
    /// When it was committed.
    pub commit_time: PgTime,
    /// Where it goes; a name Kafka allows.
    pub topic: Cow<'a, str>,
    /// Its content; None is a tombstone.
    pub payload: Option<Cow<'a, [u8]>>,
    /// The row's id.
    pub id: Option<Cow<'a, str>>,
    /// What consumers dedupe on.
    pub idempotency_key: Option<Cow<'a, str>>,
    /// Events with the same ordering key keep their order.
    pub ordering_key: Option<Cow<'a, str>>,
    /// The event's type.
    pub event_type: Option<Cow<'a, str>>,
    /// The payload's content type.
    pub content_type: Option<Cow<'a, str>>,
    /// Whose event it is.
    pub tenant: Option<Cow<'a, str>>,
    /// An explicit Kafka partition.
    pub partition: Option<i32>,
    /// More record headers, as JSON text.
    pub headers: Option<Cow<'a, [u8]>>,
    /// W3C trace context.
    pub traceparent: Option<Cow<'a, str>>,
}

impl<'a> Event<'a> {
    /// Reads the event out of a row.
    pub fn from_row(row: &Row<'a>) -> Result<Self, RowFault> {
        if let Some(fault) = &row.fault {
            return Err(RowFault::Malformed(MessageFault::clone(fault)));
        }
        if let Some(fault) = row.absent().or_else(|| row.too_large()) {
            return Err(fault);
        }
        let topic = row.text(Column::Topic)?.ok_or(RowFault::Null(Column::Topic))?;
        if !is_legal_topic(&topic) {
            return Err(RowFault::IllegalTopic);
        }
        Ok(Event {
            table: row.table,
            position: row.position,
            commit_time: row.commit_time,
            topic,
            payload: row.bytes(Column::Payload)?,
            id: row.text(Column::Id)?,
            idempotency_key: row.text(Column::IdempotencyKey)?,
            ordering_key: row.text(Column::OrderingKey)?,
            event_type: row.text(Column::Type)?,
            content_type: row.text(Column::ContentType)?,
            tenant: row.text(Column::Tenant)?,
            partition: explicit_partition(row)?,
            headers: row.bytes(Column::Headers)?,
            traceparent: row.text(Column::Traceparent)?,
        })
    }

    /// What decides the partition, and so the order: the ordering key, else the idempotency key.
    pub fn key(&self) -> Option<&str> {
        self.ordering_key.as_deref().or(self.idempotency_key.as_deref())
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

/// Kafka's rule for topic names (`org.apache.kafka.common.internals.Topic`).
pub fn is_legal_topic(topic: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&topic.len()) && topic.bytes().all(legal) && topic != "." && topic != ".."
}
