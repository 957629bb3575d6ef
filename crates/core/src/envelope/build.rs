//! An event becomes a record.

use std::borrow::Cow;

use super::format::{self, frame};
use super::headers::{adds_committed_at, headers};
use super::timestamp::{Stamp, stamp};
use super::{Destination, Record, SchemaNeed};
use crate::clock::Clocks;
use crate::event::{Event, SchemaOf, TableRules};
use crate::order::OrderedBy;
use crate::row::{Row, RowFault};

/// How rows become records.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// What is configured about the tables, by their index.
    pub tables: Vec<TableRules>,
}

impl Envelope {
    /// What is configured about a table. A row's table always is.
    pub fn rules(&self, table: usize) -> Result<&TableRules, RowFault> {
        self.tables.get(table).ok_or(RowFault::UnknownTable)
    }

    /// The event that is in a row.
    pub fn event<'a>(&'a self, row: &Row<'a>) -> Result<Event<'a>, RowFault> {
        Event::from_row(row, self.rules(row.table)?)
    }

    /// The topic of a row's event; a name Kafka allows.
    pub fn topic<'a>(&self, row: &Row<'a>) -> Result<Cow<'a, str>, RowFault> {
        self.rules(row.table)?.route.topic(row)
    }

    /// What the events that have to keep their order with the row's have in common.
    pub fn ordering_key<'a>(&'a self, row: &Row<'a>) -> Result<Option<Cow<'a, str>>, RowFault> {
        self.rules(row.table)?.ordering_key(row)
    }

    /// A row's topic for people; see [`Route::topic_for_log`](crate::route::Route::topic_for_log).
    pub fn topic_for_log(&self, row: &Row<'_>) -> String {
        self.rules(row.table).map_or_else(|_| String::new(), |it| it.route.topic_for_log(row))
    }

    /// The record of an event for a topic with these limits.
    pub fn record<'a>(
        &'a self,
        event: &'a Event<'_>,
        destination: &Destination,
        now: Clocks,
    ) -> Result<Record<'a>, RowFault> {
        let stamp = stamp(event.time(), now, destination.stamp_age_max);
        let record = self.stamped(event, stamp)?;
        record.check_size(destination)?;
        Ok(record)
    }

    /// The record of an event, with the time of its commit, even if its topic would not accept it.
    pub fn original<'a>(&'a self, event: &'a Event<'_>) -> Result<Record<'a>, RowFault> {
        let timestamp_ms = event.time().unix_micros() / 1000;
        self.stamped(
            event,
            Stamp { timestamp_ms, fallback_timestamp_ms: timestamp_ms, committed_at: None },
        )
    }

    fn stamped<'a>(&'a self, event: &'a Event<'_>, stamp: Stamp) -> Result<Record<'a>, RowFault> {
        let rules = self.rules(event.table)?;
        let encoded = match &event.converted {
            Some(converted) => format::converted(converted),
            None => format::encode(event, rules)?,
        };
        let mut value = encoded.value;
        let frame_rules = rules.format.schema.as_ref().map(|schema| &schema.frame);
        let schema = match (&event.schema, frame_rules) {
            (Some(SchemaOf::Id(id)), Some(rules)) => {
                value = value.map(|value| Cow::Owned(frame(&value, *id, rules)));
                None
            }
            // Without a value there is nothing that a schema could describe.
            (Some(SchemaOf::Subject(subject)), Some(rules)) if value.is_some() => {
                let subject = Cow::Borrowed(subject.as_ref());
                Some(SchemaNeed { subject, frame: Cow::Borrowed(rules) })
            }
            _ => None,
        };
        let (content_type, of_format) = (encoded.content_type, encoded.headers);
        Ok(Record {
            topic: &event.topic,
            partition: event.partition,
            key: match &event.converted {
                Some(converted) => converted.key.as_deref(),
                None => event.key.as_ref().map(|key| key.text.as_bytes()),
            },
            partition_by: event.partition_by.as_ref().map(|key| key.text.as_bytes()),
            value,
            headers: headers(event, rules, content_type, of_format, stamp.committed_at)?,
            timestamp_ms: stamp.timestamp_ms,
            schema,
            adds_committed_at: adds_committed_at(rules),
            ordered_by: OrderedBy::of(
                event.ordering_key().is_some(),
                event.partition.is_some(),
                rules.route.whole_topic,
            ),
            fallback_timestamp_ms: stamp.fallback_timestamp_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::row::tests::{event, rules, text};

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
        let envelope = Envelope { tables: vec![rules()] };
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
