//! The columns of an outbox table that have a meaning for the relay.

/// How many bytes a column of the table may have that is not one of ours, but is read.
pub(super) const OTHER_BYTES_MAX: usize = 64 * 1024;

/// A column with a meaning. All but the first two are optional; the order is free; others are
/// ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// Where the event goes.
    Topic,
    /// The event's content; NULL is a tombstone.
    Payload,
    /// The row's id.
    Id,
    /// What consumers dedupe on.
    IdempotencyKey,
    /// Events with the same ordering key keep their order.
    OrderingKey,
    /// The event's type.
    Type,
    /// The payload's content type.
    ContentType,
    /// Whose event it is.
    Tenant,
    /// An explicit Kafka partition.
    Partition,
    /// More record headers, a JSON object.
    Headers,
    /// W3C trace context.
    Traceparent,
    /// When the row was written, by the application's clock. Read from tables, never from the log.
    CreatedAt,
}

/// A column that is read from the log: one of ours, or another one of the table, which has this
/// place among [`ColumnNames::others`](super::ColumnNames::others).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// One of ours.
    Ours(Column),
    /// Another one of the table.
    Other(usize),
}

impl Column {
    /// Those that are read from the log; a column's place among them is its `index`.
    pub const ALL: [Column; 11] = [
        Column::Topic,
        Column::Payload,
        Column::Id,
        Column::IdempotencyKey,
        Column::OrderingKey,
        Column::Type,
        Column::ContentType,
        Column::Tenant,
        Column::Partition,
        Column::Headers,
        Column::Traceparent,
    ];

    /// Our name for the column, and the table's unless it is mapped
    /// ([`ColumnNames`](super::ColumnNames)).
    pub fn name(self) -> &'static str {
        match self {
            Column::Topic => "topic",
            Column::Payload => "payload",
            Column::Id => "id",
            Column::IdempotencyKey => "idempotency_key",
            Column::OrderingKey => "ordering_key",
            Column::Type => "type",
            Column::ContentType => "content_type",
            Column::Tenant => "tenant",
            Column::Partition => "partition",
            Column::Headers => "headers",
            Column::Traceparent => "traceparent",
            Column::CreatedAt => "created_at",
        }
    }

    /// All columns that a table can have under names of its own.
    pub fn mappable() -> impl Iterator<Item = Column> {
        Column::ALL.into_iter().chain([Column::CreatedAt])
    }

    /// How many bytes it may have. Much more than anybody needs, and few enough to be copied. The
    /// payload has limits of its own.
    pub fn bytes_max(self) -> Option<usize> {
        match self {
            Column::Payload => None,
            Column::Headers => Some(1024 * 1024),
            _ => Some(OTHER_BYTES_MAX),
        }
    }

    /// The column of this name.
    pub fn named(name: &str) -> Option<Self> {
        Column::mappable().find(|column| column.name() == name)
    }

    /// Its place among those that can be [mapped](Self::mappable).
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Whether an event must have it.
    pub fn is_required(self) -> bool {
        matches!(self, Column::Topic | Column::Payload)
    }
}
