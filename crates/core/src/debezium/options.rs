//! What `[debezium]` says, the same for all tables.

use super::expand::Expansion;
use super::topic::TopicRouter;
use crate::connect::{Converter, HeaderConverter, Modes};
use crate::row::{Column, ColumnNames};

/// The options of the Event Router, of its converters, and of the connector, as far as they show in
/// records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where Debezium ran.
    pub profile: Profile,
    /// The converter of keys.
    pub key: Converter,
    /// The converter of values.
    pub value: Converter,
    /// The converter of headers.
    pub header: HeaderConverter,
    /// The names of the table's columns.
    pub columns: Columns,
    /// Columns that have a place of their own in the record.
    pub placements: Vec<Placement>,
    /// Tables may lack these columns.
    pub ignores_missing: bool,
    /// JSON payloads become structs.
    pub expansion: Option<Expansion>,
    /// A blank payload becomes a tombstone.
    pub tombstone_on_blank: bool,
    /// What happens when a row of the outbox is updated.
    pub on_update: OnUpdate,
    /// How the connector represents values.
    pub modes: Modes,
    /// What the connector puts before the names of schemas.
    pub topic_prefix: String,
    /// What the topic is made of.
    pub topic: TopicRouter,
}

/// Columns by their meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// `table.field.event.id`.
    pub id: String,
    /// `table.field.event.key`.
    pub key: String,
    /// `table.field.event.type`, which Debezium declares, but does not read.
    pub event_type: String,
    /// `table.field.event.payload`.
    pub payload: String,
    /// `route.by.field`.
    pub route_by: String,
    /// `table.field.event.timestamp`.
    pub timestamp: Option<String>,
    /// `table.field.event.schema.version`.
    pub schema_version: Option<String>,
    /// `tracing.span.context.field`.
    pub tracing: Option<String>,
}

/// Where Debezium ran. Debezium Server ignores the record's partition and timestamp.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// In Kafka Connect.
    #[default]
    Connect,
    /// As Debezium Server.
    Server,
}

/// An entry of `table.fields.additional.placement`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The table's column.
    pub column: String,
    /// Where it goes.
    pub place: Place,
    /// What it is called there.
    pub alias: String,
}

/// Where a column goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A header of the record.
    Header,
    /// A member of the value, beside the payload.
    Envelope,
    /// The record's partition.
    Partition,
}

/// `table.op.invalid.behavior`: what happens when a row of the outbox is updated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUpdate {
    /// A warning is logged.
    #[default]
    Warn,
    /// An error is logged.
    Error,
    /// The relay stops.
    Halt,
}

impl Options {
    /// The table's names for our columns. Debezium reads these, whatever else the table has.
    pub fn column_names(&self) -> ColumnNames {
        let columns = &self.columns;
        let is_partition = |placement: &&Placement| {
            placement.place == Place::Partition && self.profile == Profile::Connect
        };
        // The last one counts.
        let partition = self.placements.iter().rfind(is_partition);
        let mut names = ColumnNames::default();
        for (column, name) in [
            (Column::Id, columns.id.as_str()),
            (Column::IdempotencyKey, columns.id.as_str()),
            (Column::Topic, columns.route_by.as_str()),
            (Column::OrderingKey, columns.key.as_str()),
            (Column::Payload, columns.payload.as_str()),
            (Column::Partition, partition.map_or("", |placement| placement.column.as_str())),
            (Column::Headers, ""),
        ] {
            names.map(column, name.to_owned());
        }
        if self.ignores_missing {
            names.set_optional(Column::Partition);
        }
        names.allow_any_key();
        if columns.event_type != Column::Type.name() {
            names.map(Column::Type, columns.event_type.clone());
            // Debezium does not read it.
            names.set_optional(Column::Type);
        }
        names
    }
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            id: "id".to_owned(),
            key: "aggregateid".to_owned(),
            event_type: "type".to_owned(),
            payload: "payload".to_owned(),
            route_by: "aggregatetype".to_owned(),
            timestamp: None,
            schema_version: None,
            tracing: None,
        }
    }
}

impl Profile {
    /// Both, as they are typed.
    pub const ALL: [(&'static str, Self); 2] =
        [("connect", Self::Connect), ("server", Self::Server)];
}

impl Place {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 3] =
        [("header", Self::Header), ("envelope", Self::Envelope), ("partition", Self::Partition)];
}

impl OnUpdate {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 3] =
        [("warn", Self::Warn), ("error", Self::Error), ("fatal", Self::Halt)];
}
