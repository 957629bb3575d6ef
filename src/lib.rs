//! postrider publishes a Postgres transactional outbox to Kafka by reading the write-ahead log.
//!
//! ```text
//!  Postgres ──WAL──► replication ─► pgoutput ─► transaction ─► outbox ─► envelope ─► sink ──► Kafka
//!     ▲                                                                               │
//!     └── status update ◄── feedback ◄── ack (contiguous prefix) ◄──────── delivery reports
//! ```
//!
//! The modules are in the order of an event's way. [`enqueue`] and [`inbox`] are the application's two
//! ends of it, a library without librdkafka (`default-features = false`, and the features
//! `tokio-postgres` or `sqlx`). `relay` is the loop that drives the others; modules marked "no I/O" know
//! neither clock nor network and are tested as plain functions.

pub mod enqueue;

pub mod inbox;

pub mod lsn;

#[cfg(feature = "daemon")]
pub mod relay;

#[cfg(feature = "daemon")]
pub mod replication;

#[cfg(feature = "daemon")]
pub mod pgoutput;

#[cfg(feature = "daemon")]
pub mod transaction;

#[cfg(feature = "daemon")]
pub mod outbox;

#[cfg(feature = "daemon")]
pub mod envelope;

#[cfg(feature = "daemon")]
pub mod clock;

#[cfg(feature = "daemon")]
pub mod sink;

#[cfg(feature = "daemon")]
pub mod undelivered;

#[cfg(feature = "daemon")]
pub mod ack;

#[cfg(feature = "daemon")]
pub mod feedback;

#[cfg(feature = "daemon")]
pub mod progress;

#[cfg(feature = "daemon")]
pub mod backfill;

#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod cleaner;

#[cfg(feature = "daemon")]
pub mod ops;

#[cfg(feature = "daemon")]
pub mod config;

#[cfg(feature = "daemon")]
pub mod migrate;

#[cfg(feature = "daemon")]
pub mod catalog;

#[cfg(feature = "daemon")]
pub mod teardown;

#[cfg(feature = "daemon")]
pub mod postgres;

#[cfg(feature = "daemon")]
pub mod shutdown;

pub use enqueue::{
    Enqueued, Event, Outbox, emit, emit_batch, enqueue, enqueue_batch, enqueue_new,
    with_transaction,
};

#[cfg(feature = "daemon")]
pub use sink::Sink;

#[cfg(feature = "daemon")]
pub use undelivered::{Class, Outcome};
