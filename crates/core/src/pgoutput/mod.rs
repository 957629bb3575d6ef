//! pgoutput, protocol version 1: bytes → messages. No I/O, no state, nothing copied.
//!
//! The format is described in the Postgres manual under "Logical Replication Message Formats".
//! Every read is checked against the bytes at hand: a server that sends garbage gets a named error
//! and never a panic, and bytes that can't be understood never become "nothing happened".

mod decode;
mod message;
mod reader;
#[cfg(test)]
pub mod tests;
mod tuple;

pub use decode::decode;
pub use message::{Message, PgTime, Relation, RelationColumn, RelationId};
pub use reader::DecodeError;
pub use tuple::{Tuple, TupleValue};
