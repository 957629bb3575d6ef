//! An event becomes a record.

use std::borrow::Cow;

use super::headers::headers;
use super::timestamp::stamp;
use super::{Destination, Record, protobuf};
use crate::outbox::{Event, RowFault};

/// What a record's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The payload, byte for byte.
    Raw,
    /// `postrider.v1.Envelope`.
    Protobuf,
}

/// How events become records.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// What a record's value is.
    pub format: Format,
    /// The configured tables' names, by their place.
    pub tables: Vec<String>,
}

impl Envelope {
    /// The record of an event for a topic of which this is known.
    pub fn record<'a>(
        &self,
        event: &'a Event<'_>,
        destination: &Destination,
        now_unix_micros: i64,
    ) -> Result<Record<'a>, RowFault> {
        let stamp = stamp(
            event.commit_time,
            now_unix_micros,
            destination.stamp_age_max,
        );
        let record = Record {
            topic: &event.topic,
            partition: event.partition,
            key: event.key().map(str::as_bytes),
            value: self.value(event),
            headers: headers(event, stamp.committed_at)?,
            timestamp_ms: stamp.timestamp_ms,
        };
        if let Some(limit) = destination.batch_bytes_max {
            let bytes = record.batch_bytes();
            if bytes > limit {
                return Err(RowFault::TooLarge { bytes, limit });
            }
        }
        Ok(record)
    }

    fn value<'a>(&self, event: &'a Event<'_>) -> Option<Cow<'a, [u8]>> {
        let payload = event.payload.as_deref()?;
        Some(match self.format {
            Format::Raw => Cow::Borrowed(payload),
            Format::Protobuf => {
                let table = self.tables.get(event.table).map_or("", String::as_str);
                Cow::Owned(protobuf::encode(event, table, payload))
            }
        })
    }
}
