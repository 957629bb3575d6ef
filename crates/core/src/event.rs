//! The event that is in a row: what it says, where it goes, and in which form.

use std::borrow::Cow;

use crate::debezium::{Converted, EventRouter};
use crate::format::{Format, SchemaId, SchemaRules, Subject};
use crate::pgoutput::PgTime;
use crate::route::{Key, Route};
use crate::row::{Column, MESSAGES, MessageFault, Row, RowFault, explicit_partition};
use crate::transaction::Position;

/// What is configured about the events of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRules {
    /// The table's name, or [`MESSAGES`].
    pub name: String,
    /// Where they go.
    pub route: Route,
    /// In which form.
    pub format: Format,
    /// Debezium's Event Router, which makes key, value and headers in place of route and format.
    pub debezium: Option<EventRouter>,
}

impl TableRules {
    /// What the events that have to keep their order with the row's have in common: the same as
    /// [`Event::ordering_key`], without making an event.
    pub fn ordering_key<'a>(&'a self, row: &Row<'a>) -> Result<Option<Cow<'a, str>>, RowFault> {
        let Some(router) = &self.debezium else { return self.route.ordering_key(row) };
        let by = match self.route.partition_by.find(row)? {
            None => router.key(row)?,
            by => by,
        };
        Ok(by.filter(|found| !found.is_unique).map(|found| found.text))
    }

    /// Whether the events are rows, which can be looked up later.
    pub fn is_table(&self) -> bool {
        self.name != MESSAGES
    }
}

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
    /// The record's key.
    pub key: Option<Key<'a>>,
    /// What decides the partition in place of the key.
    pub partition_by: Option<Key<'a>>,
    /// An explicit Kafka partition.
    pub partition: Option<i32>,
    /// Its content; None is a tombstone.
    pub payload: Option<Cow<'a, [u8]>>,
    /// What the content is.
    pub content: Content,
    /// The row's id.
    pub id: Option<Cow<'a, str>>,
    /// What consumers dedupe on.
    pub idempotency_key: Option<Cow<'a, str>>,
    /// The event's type.
    pub event_type: Option<Cow<'a, str>>,
    /// The payload's content type.
    pub content_type: Option<Cow<'a, str>>,
    /// Whose event it is.
    pub tenant: Option<Cow<'a, str>>,
    /// More record headers, as JSON text.
    pub headers: Option<Cow<'a, [u8]>>,
    /// W3C trace context.
    pub traceparent: Option<Cow<'a, str>>,
    /// The headers of the configuration, by their rules; None is left out.
    pub placed: Vec<Option<Cow<'a, str>>>,
    /// The CloudEvents attributes, in those formats.
    pub cloud: Option<CloudAttributes<'a>>,
    /// Its schema, if the record refers to one.
    pub schema: Option<SchemaOf<'a>>,
    /// What the Event Router has made of the row.
    pub converted: Option<Converted<'a>>,
}

/// What a payload is, by the type of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// JSON, as the database has checked.
    Json,
    /// Text of any kind.
    Text,
    /// Bytes.
    Bytes,
    /// An event without a table can be either of these.
    Unknown,
}

/// Attributes that a CloudEvent needs and that a table may not have as columns.
#[derive(Debug, Clone)]
pub struct CloudAttributes<'a> {
    /// `type`.
    pub event_type: Cow<'a, str>,
    /// `source`.
    pub source: Cow<'a, str>,
}

/// The schema of an event's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaOf<'a> {
    /// Its id.
    Id(SchemaId),
    /// The subject that has to be looked up.
    Subject(Cow<'a, str>),
}

impl<'a> Event<'a> {
    /// Reads the event out of a row.
    pub fn from_row(row: &Row<'a>, rules: &'a TableRules) -> Result<Self, RowFault> {
        if let Some(fault) = &row.fault {
            return Err(RowFault::Malformed(MessageFault::clone(fault)));
        }
        // A row without a payload column would be taken for a tombstone.
        if !row.has_column(Column::Payload) {
            return Err(RowFault::Absent(Column::Payload));
        }
        if let Some(fault) = row.too_large() {
            return Err(fault);
        }
        let route = &rules.route;
        let topic = route.topic(row)?;
        let converted = rules.debezium.as_ref().map(|it| it.convert(row)).transpose()?;
        let schema = match &rules.format.schema {
            None => None,
            Some(schema) => Some(schema_of(schema, row, &topic)?),
        };
        Ok(Event {
            table: row.table,
            position: row.position,
            commit_time: row.commit_time,
            topic,
            key: match (&rules.debezium, &converted) {
                (Some(router), Some(converted)) => router.compared_key(converted),
                _ => route.key.find(row)?,
            },
            partition_by: route.partition_by.find(row)?,
            partition: explicit_partition(row)?,
            payload: match converted {
                Some(_) => None,
                None => row.bytes(Column::Payload)?,
            },
            content: content(row, rules),
            id: row.text(Column::Id)?,
            idempotency_key: row.text(Column::IdempotencyKey)?,
            event_type: row.text(Column::Type)?,
            content_type: row.text(Column::ContentType)?,
            tenant: row.text(Column::Tenant)?,
            headers: row.bytes(Column::Headers)?,
            traceparent: row.text(Column::Traceparent)?,
            placed: placed(route, row)?,
            cloud: cloud(&rules.format, row)?,
            schema,
            converted,
        })
    }

    /// When it happened, for the record's timestamp.
    pub fn time(&self) -> PgTime {
        let of_column = self.converted.as_ref().and_then(|converted| converted.timestamp);
        of_column.unwrap_or(self.commit_time)
    }

    /// Events with the same ordering key keep their order. It is that of [`Route::ordering_key`],
    /// without reading the row again.
    pub fn ordering_key(&self) -> Option<&str> {
        let by = self.partition_by.as_ref().or(self.key.as_ref())?;
        (!by.is_unique).then_some(by.text.as_ref())
    }
}

fn content(row: &Row<'_>, rules: &TableRules) -> Content {
    if row.is_json(Column::Payload) {
        Content::Json
    } else if !rules.is_table() {
        Content::Unknown
    } else if row.is_bytes(Column::Payload) {
        Content::Bytes
    } else {
        Content::Text
    }
}

fn placed<'a>(route: &Route, row: &Row<'a>) -> Result<Vec<Option<Cow<'a, str>>>, RowFault> {
    let rules = route.headers.placed();
    let mut placed = Vec::with_capacity(rules.len());
    for (_, value) in rules {
        placed.push(value.render_unless_null(row)?);
    }
    Ok(placed)
}

fn cloud<'a>(format: &Format, row: &Row<'a>) -> Result<Option<CloudAttributes<'a>>, RowFault> {
    let Some(source) = format.source.as_ref().filter(|_| format.value.is_cloud_event()) else {
        return Ok(None);
    };
    let event_type = format.event_type.render(row)?;
    Ok(Some(CloudAttributes { event_type, source: source.render(row)? }))
}

fn schema_of<'a>(
    rules: &SchemaRules,
    row: &Row<'a>,
    topic: &str,
) -> Result<SchemaOf<'a>, RowFault> {
    if let Some(id) = rules.topic_ids.get(topic) {
        return Ok(SchemaOf::Id(*id));
    }
    let text = match (&rules.id, &rules.subject) {
        (Some(id), None) => Some(id.render(row)?),
        (Some(id), Some(_)) => id.render_unless_null(row)?,
        (None, _) => None,
    };
    if let Some(text) = text {
        return text.parse().map(SchemaOf::Id).map_err(|_| RowFault::SchemaId);
    }
    match &rules.subject {
        Some(Subject::OfTopic) => Ok(SchemaOf::Subject(Cow::Owned(format!("{topic}-value")))),
        Some(Subject::Template(subject)) => Ok(SchemaOf::Subject(subject.render(row)?)),
        None => Err(RowFault::NoSchemaForTopic),
    }
}
