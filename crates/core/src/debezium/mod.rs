//! What Debezium's Outbox Event Router makes of a row, byte for byte. No I/O.
//!
//! [`router`] decides which columns become key, value and headers, [`expand`] makes structs of JSON
//! text, [`topic`] makes the topic; columns are read, and bytes are made of values, by
//! [`connect`](crate::connect). `make compare-debezium` compares all of it with Debezium itself.

mod expand;
mod options;
mod router;
#[cfg(test)]
mod tests;
pub mod topic;
mod tracing;

pub use expand::Expansion;
pub use options::{Columns, OnUpdate, Options, Place, Placement, Profile};
pub use router::{Converted, EventRouter};
pub use topic::TopicRouter;
