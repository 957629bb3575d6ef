//! postrider publishes a Postgres transactional outbox to Kafka by reading the write-ahead log.
//!
//! ```text
//!  Postgres ──WAL──► replication ─► pgoutput ─► transaction ─► row ─► envelope ─► sink ──► Kafka
//!     ▲                                                         │                   │
//!     │                                                         ▼ can't be          │
//!     │                                                      parking  published     │
//!     └── status update ◄── feedback ◄── ack (contiguous prefix) ◄──────── delivery reports
//! ```
//!
//! Applications use the package `postrider-outbox`, which is re-exported here. What does no I/O is the
//! package `postrider-core`.

pub mod relay;

mod engine;

mod restarts;

mod publish;

mod session_end;

mod background;

mod pulse;

mod replication;

pub mod sink;

#[doc(hidden)]
pub mod parking;

#[doc(hidden)]
pub mod progress;

#[doc(hidden)]
pub mod backfill;

mod standby;

#[doc(hidden)]
pub mod cleaner;

mod checks;

mod setup;

mod ops;

pub mod config;

mod postgres;

mod clock;

pub mod shutdown;

#[doc(hidden)]
pub mod cli;

#[cfg(test)]
mod docs;

pub use postrider_core::delivery::{Class, Outcome};
pub use postrider_outbox::{
    Enqueued, Event, Outbox, emit, emit_batch, enqueue, enqueue_batch, enqueue_new, inbox,
    with_transaction,
};

pub use relay::{Endpoint, Relay};
pub use sink::Sink;
