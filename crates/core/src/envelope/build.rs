//! An event becomes a record.

use std::borrow::Cow;

use super::headers::headers;
use super::timestamp::{Stamp, stamp};
use super::{Destination, Record, protobuf};
use crate::clock::Clocks;
use crate::order::OrderedBy;
use crate::row::{Event, MESSAGES, RowFault};

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
    /// The configured tables, by their index.
    pub tables: Vec<TableEnvelope>,
    /// All events of a topic keep their order.
    pub whole_topic: bool,
}

/// How the events of one table become records.
#[derive(Debug, Clone)]
pub struct TableEnvelope {
    /// The table's name, or [`MESSAGES`].
    pub name: String,
    /// What a record's value is.
    pub format: Format,
}

impl TableEnvelope {
    /// Whether the events are rows, which can be looked up later.
    pub fn is_table(&self) -> bool {
        self.name != MESSAGES
    }
}

impl Envelope {
    /// The record of an event for a topic with these limits.
    pub fn record<'a>(
        &self,
        event: &'a Event<'_>,
        destination: &Destination,
        now: Clocks,
    ) -> Result<Record<'a>, RowFault> {
        let stamp = stamp(event.commit_time, now, destination.stamp_age_max);
        let record = self.stamped(event, stamp)?;
        record.check_size(destination)?;
        Ok(record)
    }

    /// The record of an event, with the time of its commit, even if its topic would not accept it.
    pub fn original<'a>(&self, event: &'a Event<'_>) -> Result<Record<'a>, RowFault> {
        let timestamp_ms = event.commit_time.unix_micros() / 1000;
        self.stamped(
            event,
            Stamp { timestamp_ms, fallback_timestamp_ms: timestamp_ms, committed_at: None },
        )
    }

    fn stamped<'a>(&self, event: &'a Event<'_>, stamp: Stamp) -> Result<Record<'a>, RowFault> {
        Ok(Record {
            topic: &event.topic,
            partition: event.partition,
            key: event.key().map(str::as_bytes),
            value: self.value(event),
            headers: headers(event, stamp.committed_at)?,
            timestamp_ms: stamp.timestamp_ms,
            ordered_by: OrderedBy::of(
                event.ordering_key.is_some(),
                event.partition.is_some(),
                self.whole_topic,
            ),
            fallback_timestamp_ms: stamp.fallback_timestamp_ms,
        })
    }

    fn value<'a>(&self, event: &'a Event<'_>) -> Option<Cow<'a, [u8]>> {
        let payload = event.payload.as_deref()?;
        Some(match self.tables.get(event.table) {
            Some(TableEnvelope { name, format: Format::Protobuf }) => {
                Cow::Owned(protobuf::encode(event, name, payload))
            }
            _ => Cow::Borrowed(payload),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::row::tests::{event, text};

    const TEXT: u32 = 25;
    const JSON: u32 = 114;

    fn check(
        columns: &[(&str, u32, &str)],
        limit: Option<usize>,
        look: impl FnOnce(Result<Record<'_>, RowFault>),
    ) {
        let required = [("topic", TEXT, "t"), ("payload", JSON, "{}")];
        let columns: Vec<_> = required
            .iter()
            .chain(columns)
            .map(|(name, type_oid, value)| (*name, *type_oid, text(value)))
            .collect();
        let table = TableEnvelope { name: "public.outbox".to_owned(), format: Format::Raw };
        let envelope = Envelope { tables: vec![table], whole_topic: false };
        let destination = Destination::new(limit, Duration::MAX);
        event(&columns, |event| {
            let event = event.unwrap();
            let now = Clocks::at(event.commit_time.unix_micros(), 0);
            look(envelope.record(&event, &destination, now));
        });
    }

    #[test]
    fn the_ordering_key_goes_before_the_idempotency_key() {
        let key = |columns: &[_], expect: Option<&str>| {
            check(columns, None, |record| {
                assert_eq!(record.unwrap().key, expect.map(str::as_bytes));
            });
        };
        key(&[("idempotency_key", TEXT, "i"), ("ordering_key", TEXT, "o")], Some("o"));
        key(&[("idempotency_key", TEXT, "i")], Some("i"));
        key(&[("ordering_key", TEXT, "")], Some(""));
        key(&[], None);
    }

    #[test]
    fn headers_come_in_the_order_of_the_contract() {
        let columns = [
            ("headers", JSON, r#"{"z":1,"id":"mine"}"#),
            ("traceparent", TEXT, "00-a"),
            ("tenant", TEXT, "acme"),
            ("content_type", TEXT, "application/json"),
            ("type", TEXT, "order.created"),
            ("idempotency_key", TEXT, "i"),
            ("id", TEXT, "7"),
        ];
        check(&columns, None, |record| {
            let record = record.unwrap();
            let names: Vec<_> = record.headers.iter().map(|header| header.name.as_ref()).collect();
            let expect =
                ["id", "idempotency-key", "type", "content-type", "tenant", "traceparent", "z"];
            assert_eq!(names, expect);
        });
    }

    #[test]
    fn a_record_above_the_limit_is_a_fault() {
        check(&[], None, |record| {
            let bytes = record.unwrap().batch_bytes();
            check(&[], Some(bytes), |record| assert!(record.is_ok()));
            let fault = RowFault::TooLarge { bytes, limit: bytes - 1 };
            check(&[], Some(bytes - 1), |record| assert_eq!(record.unwrap_err(), fault));
        });
    }
}
