//! An event on its way into the side table. No I/O.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::delivery::{Reason, Refusal};
use crate::envelope::{Envelope, Header, SchemaNeed};
use crate::event::TableRules;
use crate::format::{Frame, FramePlace};
use crate::order::OrderKey;
use crate::order::{STORABLE_CHARS_MAX, storable};
use crate::route::is_legal_topic;
use crate::row::{Column, Row, explicit_partition};
use crate::transaction::Position;

/// Values above this stay in the outbox; the side table only refers to them.
pub const VALUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The first day of the year 3000.
const YEAR_3000_MICROS: i64 = 32_503_680_000_000_000;
/// The same for messages that are not events: anybody can write them, and nobody publishes them.
pub const MALFORMED_BYTES_MAX: usize = 64 * 1024;
/// What a row of the side table takes in addition to its contents: other columns and index entries.
/// The column `bytes` counts the same.
pub const ROW_BYTES: usize = 1024;
/// Errors longer than this are cut.
const ERROR_CHARS_MAX: usize = 1000;

/// What happens to an event once it is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParkAs {
    /// It is retried with backoff.
    Retry,
    /// It waits for an earlier event that it keeps its order with.
    WaitForEarlier,
    /// It waits for an operator.
    Dead,
}

/// How much of the record is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// All of it.
    Whole,
    /// The value stays in the outbox.
    Reference,
    /// No record could be made of the row.
    Fragment,
}

impl Completeness {
    /// Its name in the side table.
    pub fn name(self) -> &'static str {
        match self {
            Completeness::Whole => "whole",
            Completeness::Reference => "reference",
            Completeness::Fragment => "fragment",
        }
    }
}

/// An event that could not be published, with everything that is needed to publish it later.
#[derive(Debug, Clone, PartialEq)]
pub struct EventToPark {
    /// The table's index in the configuration.
    pub table: usize,
    /// The outbox table's name, or `messages`.
    pub source_table: String,
    /// Its position in the log.
    pub position: Position,
    /// The row's id.
    pub row_id: Option<String>,
    /// What consumers dedupe on.
    pub idempotency_key: Option<String>,
    /// What keeps it in order.
    pub ordering_key: Option<String>,
    /// Whose event it is.
    pub tenant: Option<String>,
    /// Its topic; empty if the row has none.
    pub topic: String,
    /// An explicit partition.
    pub partition: Option<i32>,
    /// It keeps its order with all events of its topic.
    pub whole_topic: bool,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// What decides the partition in place of the key.
    pub partition_by: Option<Vec<u8>>,
    /// The record's value, if it is here.
    pub value: Option<Vec<u8>>,
    /// The length of the value, here or not.
    pub value_bytes: usize,
    /// The headers as a JSON array of pairs, `[["id","7"],["x",null]]`.
    pub headers: String,
    /// The record gets the header `committed-at` if its timestamp has to differ.
    pub adds_committed_at: bool,
    /// The schema that has to be looked up before the record can be sent.
    pub schema: Option<SchemaToFind>,
    /// When it was committed.
    pub commit_unix_micros: i64,
    /// How much of the record is here.
    pub completeness: Completeness,
    /// What happens to it.
    pub park_as: ParkAs,
    /// Why it was parked.
    pub refusal: Refusal,
}

/// A schema that has to be looked up, as the side table has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaToFind {
    /// The subject whose newest schema it is.
    pub subject: String,
    /// The record carries it in a header.
    pub in_header: bool,
    /// Which message of a protobuf schema the value is, encoded.
    pub message_index: Vec<u8>,
}

impl SchemaToFind {
    /// What the record needs.
    pub fn need(&self) -> SchemaNeed<'_> {
        let place = if self.in_header { FramePlace::Header } else { FramePlace::Value };
        let frame = Frame { place, message_index: self.message_index.clone() };
        SchemaNeed { subject: Cow::Borrowed(&self.subject), frame: Cow::Owned(frame) }
    }

    /// As it is stored.
    pub fn to_json(&self) -> String {
        // Strings and numbers always become JSON.
        in_ascii(serde_json::to_string(self).unwrap_or_default())
    }

    fn of(need: &SchemaNeed<'_>) -> Self {
        SchemaToFind {
            subject: need.subject.to_string(),
            in_header: need.frame.place == FramePlace::Header,
            message_index: need.frame.message_index.clone(),
        }
    }
}

/// What decides which later events wait for it. If Debezium's converter can't make a key, the key's
/// column does.
fn ordering_key<'a>(rules: &'a TableRules, row: &Row<'a>) -> Option<Cow<'a, str>> {
    if row.too_large().is_some() {
        return None;
    }
    rules.ordering_key(row).or_else(|_| rules.route.ordering_key(row)).ok().flatten()
}

impl EventToPark {
    /// What can be read from a row. A row with a fault becomes a fragment.
    pub fn of_row(row: &Row<'_>, envelope: &Envelope, park_as: ParkAs, refusal: Refusal) -> Self {
        let source = envelope.tables.get(row.table);
        let source_table = source.map(|it| it.name.clone()).unwrap_or_default();
        // Too large a key is not copied: an event with one is at fault, and keeps no order.
        let route = source.map(|it| &it.route).filter(|_| row.too_large().is_none());
        let own = |text: Cow<'_, str>| text.into_owned();
        // Values that are too large are not copied: the row has them.
        let fits =
            |column: Column| column.bytes_max().is_none_or(|max| row.raw_bytes(column) <= max);
        let text = |column| {
            if fits(column) { row.text(column).ok().flatten().map(Cow::into_owned) } else { None }
        };
        let mut to_park = EventToPark {
            table: row.table,
            source_table,
            position: row.position,
            row_id: text(Column::Id),
            idempotency_key: text(Column::IdempotencyKey),
            ordering_key: source.and_then(|it| ordering_key(it, row)).map(own),
            tenant: text(Column::Tenant),
            topic: envelope
                .topic(row)
                .ok()
                .map(own)
                .or_else(|| text(Column::Topic))
                .unwrap_or_default(),
            partition: explicit_partition(row).ok().flatten(),
            whole_topic: route.is_some_and(|route| route.whole_topic),
            key: route
                .and_then(|it| it.key.find(row).ok().flatten())
                .map(|it| own(it.text).into_bytes()),
            partition_by: None,
            schema: None,
            adds_committed_at: true,
            value: None,
            value_bytes: 0,
            headers: "[]".to_owned(),
            commit_unix_micros: row.commit_time.unix_micros(),
            completeness: Completeness::Fragment,
            park_as,
            refusal: Refusal { reason: refusal.reason, detail: shortened(&refusal.detail) },
        };
        to_park.add_record(row, envelope, source.is_some_and(TableRules::is_table));
        to_park
    }

    /// The finished record, if one can be made; else the payload, for people to read.
    fn add_record(&mut self, row: &Row<'_>, envelope: &Envelope, in_table: bool) {
        if let Ok(event) = envelope.event(row)
            && let Ok(record) = envelope.original(&event)
        {
            self.completeness = Completeness::Whole;
            self.partition = record.partition;
            self.key = record.key.map(<[u8]>::to_vec);
            // A column's time can be one that the side table can't store. An older stamp than this
            // is moved anyway.
            self.commit_unix_micros = event.time().unix_micros().clamp(0, YEAR_3000_MICROS);
            self.partition_by = record.partition_by.map(<[u8]>::to_vec);
            self.adds_committed_at = record.adds_committed_at;
            self.schema = record.schema.as_ref().map(SchemaToFind::of);
            self.headers = headers_json(&record.headers);
            self.add_value(record.value, in_table);
        } else if let Ok(payload) = row.bytes(Column::Payload) {
            self.add_value(payload, true);
        }
    }

    /// A message's value is nowhere else; its content has a limit of its own, which an envelope
    /// exceeds only a little.
    fn add_value(&mut self, value: Option<Cow<'_, [u8]>>, in_table: bool) {
        self.value_bytes = value.as_ref().map_or(0, |value| value.len());
        if self.refusal.reason == Reason::Malformed && self.value_bytes > MALFORMED_BYTES_MAX {
            return;
        }
        if self.value_bytes <= VALUE_BYTES_MAX || !in_table {
            self.value = value.map(Cow::into_owned);
        } else if self.completeness == Completeness::Whole {
            self.completeness = Completeness::Reference;
        }
    }

    /// The same event in a form that every database stores: its texts in ASCII and cut, so it is
    /// for people to read, not to be published. The value is bytes anyway. Topic and ordering key
    /// stay as they are, because they decide which later events wait for it.
    pub fn storable(&self, why: &str) -> Self {
        let optional = |text: &Option<String>| text.clone().map(plain);
        let was = &self.refusal;
        let detail = format!(
            "Postgres can't store the event: {why}; it was being parked because of {}: {}",
            was.reason.label(),
            was.detail
        );
        EventToPark {
            row_id: optional(&self.row_id),
            idempotency_key: optional(&self.idempotency_key),
            tenant: optional(&self.tenant),
            key: self
                .key
                .as_ref()
                .map(|key| key.iter().copied().take(STORABLE_CHARS_MAX).collect()),
            partition_by: None,
            schema: None,
            headers: "[]".to_owned(),
            completeness: Completeness::Fragment,
            park_as: ParkAs::Dead,
            refusal: Refusal {
                reason: Reason::Unstorable,
                detail: shortened(&plain_error(&detail)),
            },
            ..self.clone()
        }
    }

    /// The same if Postgres can't store its topic or ordering key: under [`OrderKey::storable`].
    pub fn under_storable_key(self) -> Self {
        let is_legal = is_legal_topic(&self.topic);
        EventToPark {
            ordering_key: self.ordering_key.map(plain),
            topic: if is_legal { self.topic } else { plain(self.topic) },
            ..self
        }
    }

    /// Its topic for the log; see [`Route::topic_for_log`](crate::route::Route::topic_for_log).
    pub fn topic_for_log(&self) -> String {
        match self.topic.as_str() {
            "" => "(none)".to_owned(),
            topic if is_legal_topic(topic) => topic.to_owned(),
            topic => format!("(an illegal name of {} bytes)", topic.len()),
        }
    }

    /// What it must be kept in order with, if anything.
    pub fn order_key(&self) -> Option<OrderKey> {
        OrderKey::of(&self.topic, self.ordering_key.as_deref(), self.partition, self.whole_topic)
    }

    /// What it takes in the side table: the column `bytes` has the same number. Messages that are
    /// not events have a limit of their own.
    pub fn side_table_bytes(&self) -> usize {
        if self.refusal.reason == Reason::Malformed {
            return 0;
        }
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        ROW_BYTES
            + self.topic.len()
            + self.headers.len()
            + self.key.as_ref().map_or(0, Vec::len)
            + self.value.as_ref().map_or(0, Vec::len)
            + text(&self.row_id)
            + text(&self.idempotency_key)
            + text(&self.ordering_key)
            + text(&self.tenant)
    }

    /// What it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.side_table_bytes()
            + self.value.as_ref().map_or(0, Vec::len)
            + self.partition_by.as_ref().map_or(0, Vec::len)
    }
}

fn plain(text: String) -> String {
    storable(&text).unwrap_or(text)
}

fn headers_json(headers: &[Header<'_>]) -> String {
    let pairs: Vec<(&str, Option<Cow<'_, str>>)> = headers
        .iter()
        .map(|header| {
            let value = header.value.as_deref().map(String::from_utf8_lossy);
            (header.name.as_ref(), value)
        })
        .collect();
    // Strings always become JSON.
    in_ascii(serde_json::to_string(&pairs).unwrap_or_else(|_| "[]".to_owned()))
}

/// The same JSON in ASCII, with escapes for characters that the database's encoding may lack.
/// Outside of strings JSON is ASCII anyway.
fn in_ascii(json: String) -> String {
    if json.is_ascii() {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() * 2);
    for char in json.chars() {
        if char.is_ascii() {
            escaped.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

/// Errors name the character at fault by its bytes; the topic they may name is in ASCII here.
fn plain_error(error: &str) -> String {
    error.chars().map(|char| if char.is_ascii() { char } else { '?' }).collect()
}

/// Cut to size, and without NUL, which Postgres does not accept in a text.
pub fn shortened(error: &str) -> String {
    error.chars().filter(|it| *it != '\0').take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_kept_in_ascii_and_mean_the_same() {
        let text = "größer 中 😀 \\ \" \u{7f}";
        let value = Some(Cow::Borrowed(text.as_bytes()));
        let json = headers_json(&[Header { name: Cow::Borrowed(text), value }]);
        assert!(json.is_ascii(), "{json}");
        let pairs: Vec<(String, Option<String>)> = serde_json::from_str(&json).unwrap();
        assert_eq!(pairs, [(text.to_owned(), Some(text.to_owned()))]);
    }
}
