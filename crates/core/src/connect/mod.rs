//! Values as Kafka Connect has them: read from columns as Debezium's connector reads them, and written
//! by Kafka Connect's converters. No I/O.
//!
//! A column's type, its constraints and its default decide how its text is [read](reader) and what
//! [schema] the [value](data) has. A [converter](convert) makes bytes of both.

mod column;
mod convert;
mod data;
mod default;
mod java;
mod json;
mod modes;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod times;

pub use column::{ColumnType, TypedColumns};
pub use convert::{Converter, HeaderConverter};
pub use modes::{BinaryMode, DecimalMode, Modes, TimeMode};

pub(crate) use column::ConnectColumn;
pub(crate) use convert::{Typed, convert, header_value};
pub(crate) use data::Data;
pub(crate) use java::is_blank;
pub(crate) use reader::hex;
pub(crate) use schema::{Fields, Kind, Schema};
