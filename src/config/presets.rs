//! Tables as other tools create them: what their columns mean, and which records their consumers
//! expect.

use postrider_core::debezium::Options;
use postrider_core::route::{HeaderRule, KeyList, Template};
use postrider_core::row::{Column, ColumnNames, ColumnRef};

/// Another tool's table and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preset {
    /// Our own.
    None,
    /// The table of Debezium's Outbox Event Router.
    Debezium,
    /// The same as Quarkus' extension creates it, where rows are deleted right after they were
    /// inserted.
    Quarkus,
    /// The table of the Open Outbox specification's relay.
    OpenOutbox,
}

/// What a preset says in place of the defaults.
pub(super) struct PresetRoute {
    pub(super) topic: Template<ColumnRef>,
    pub(super) key: KeyList<ColumnRef>,
    pub(super) headers: Vec<HeaderRule<ColumnRef>>,
}

const OPEN_OUTBOX: &[(Column, &str)] = &[
    (Column::Id, "event_id"),
    (Column::IdempotencyKey, "event_id"),
    (Column::Topic, "event_type"),
    (Column::Type, "event_type"),
    (Column::OrderingKey, "partition_key"),
    (Column::Payload, "payload"),
    (Column::Headers, "headers"),
    (Column::CreatedAt, "created_at"),
];

impl Preset {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Debezium, Self::Quarkus, Self::OpenOutbox];

    /// As it is typed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Debezium => "debezium",
            Self::Quarkus => "quarkus",
            Self::OpenOutbox => "open-outbox",
        }
    }

    /// Whether Debezium's Event Router makes its records.
    pub(super) fn is_routed(self) -> bool {
        matches!(self, Self::Debezium | Self::Quarkus)
    }

    /// The table's names for our columns.
    pub(super) fn columns(self, debezium: &Options) -> ColumnNames {
        let mut names = match self {
            Self::None | Self::OpenOutbox => ColumnNames::default(),
            Self::Debezium | Self::Quarkus => debezium.column_names(),
        };
        let more = match self {
            Self::None | Self::Debezium => &[][..],
            Self::Quarkus => &[(Column::CreatedAt, "timestamp")],
            Self::OpenOutbox => OPEN_OUTBOX,
        };
        for (column, name) in more {
            names.map(*column, (*name).to_owned());
        }
        names
    }

    /// Topic, key and headers; none: the defaults. Such records have no default headers.
    pub(super) fn route(self) -> Option<PresetRoute> {
        let id = match self {
            Self::None => return None,
            Self::Debezium | Self::Quarkus => "id",
            Self::OpenOutbox => "X-Event-ID",
        };
        let value = Template::parse("{id}").ok()?;
        Some(PresetRoute {
            topic: Template::parse("{topic}").ok()?,
            key: KeyList::parse(["ordering_key"].into_iter()).ok()?,
            headers: vec![HeaderRule { name: id.to_owned(), value: Some(value) }],
        })
    }
}
