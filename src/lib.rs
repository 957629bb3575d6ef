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

pub mod relay;

pub mod replication;

pub mod clock;

pub mod sink;

pub mod undelivered;

pub mod progress;

pub mod backfill;

#[doc(hidden)]
pub mod cleaner;

pub mod ops;

pub mod config;

pub mod migrate;

pub mod catalog;

pub mod teardown;

pub mod postgres;

pub mod shutdown;

pub use postrider_outbox::{
    Enqueued, Event, Outbox, emit, emit_batch, enqueue, enqueue_batch, enqueue_new, inbox,
    with_transaction,
};

pub use sink::Sink;

pub use postrider_core::delivery::{Class, Outcome};
