//! What Debezium's Outbox Event Router and the converters of Kafka Connect make of a row, byte for
//! byte. No I/O.
//!
//! The way of a row: its columns are read by their types ([`column`], [`reader`]) into values with
//! schemas ([`data`], [`schema`]); [`router`] decides which of them becomes key, value and header;
//! converters ([`convert`], with [`text`] and [`json`]) make bytes of them. `make compare-debezium`
//! compares all of it with Debezium itself.

mod column;
mod convert;
mod data;
mod default;
mod expand;
mod java;
mod json;
mod modes;
mod options;
mod reader;
mod router;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod times;
pub mod topic;
mod tracing;

pub use expand::Expansion;
pub use modes::{BinaryMode, DecimalMode, Modes, TimeMode};
pub use options::{
    Columns, Converter, HeaderConverter, OnUpdate, Options, Place, Placement, Profile,
};
pub use router::{Converted, EventRouter, TypedColumns};
pub use topic::TopicRouter;
