//! The replication connection: one socket, one owner.
//!
//! tokio-postgres has no replication mode, and postgres-protocol has the start-up, SCRAM and
//! framing but not CopyBoth, so the client is ours and thin (ADR 0001): [`connect`] opens the
//! socket and authenticates, [`ReplicationStream`] reads frames and sends status updates, nothing
//! else. After `replication=database` only the simple query protocol works on this connection;
//! everything that needs SQL goes over an ordinary one.

mod auth;
mod connect;
mod error;
mod identify;
mod probe;
mod slot;
mod stream;
mod wire;

pub(crate) use connect::walsender_name;
pub(crate) use error::{ReplicationError, ServerError};
pub(crate) use identify::identity;
pub(crate) use probe::probe;
pub(crate) use slot::NewSlot;
pub(crate) use stream::{ReplicationStream, StreamOptions};
pub(crate) use wire::DETACHED_ABOVE_BYTES;
