//! Schemas by their subjects: a registry is asked for the newest one before a record that needs it
//! goes to its destination (ADR 31).
//!
//! A record says that it needs a schema; [`SchemaSink`] stands between everything that sends
//! records and the sink that they go to, finds the schema, and passes the record on with it. So no
//! sink ever sees a record that lacks its schema, whether it comes from the stream, from a table or
//! from the side table.
//!
//! | the registry | what becomes of the event |
//! |---|---|
//! | has been asked already | it is sent; if the answer is old, the registry is asked again meanwhile |
//! | is being asked | it waits with the other events of its topic |
//! | can't be asked: unreachable, or it answers with an error | the same; it is asked again with growing pauses |
//! | does not know the subject | it is parked, and retried like one whose topic does not exist |
//!
//! - `client`: one question, on a connection of its own; `answer`: what it means; `error`: why there
//!   is none, and what to do about it
//! - `subjects`: what is known of subjects, and which are asked about; `known`: of one subject
//! - `sink`: the sink in front of the sink

mod answer;
mod client;
mod error;
mod known;
#[cfg(test)]
mod script;
mod sink;
mod subjects;

pub(crate) use self::sink::{SchemaSink, SchemaSinks};
