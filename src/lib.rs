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
//! Applications use the package `postrider-outbox`, which is re-exported here. Everything that does
//! no I/O is in the package `postrider-core`.

pub mod relay;

mod engine;

mod restarts;

mod publish;

mod session_end;

mod background;

mod pulse;

mod replication;

pub mod sink;

mod parking;

mod progress;

mod backfill;

mod standby;

mod cleaner;

mod checks;

mod setup;

mod rights;

mod schema;

mod ops;

pub mod config;

mod postgres;

mod clock;

mod retry;

mod log_limit;

mod plural;

pub mod shutdown;

mod cli;

#[doc(hidden)]
pub mod internals;

#[cfg(test)]
mod docs;

#[doc(hidden)]
pub use cli::main;
pub use postrider_core::delivery::{Class, Outcome};
pub use postrider_outbox::{
    Enqueued, Event, Outbox, emit, emit_batch, enqueue, enqueue_batch, enqueue_new, inbox,
    with_transaction,
};

pub use relay::{Endpoint, Relay};
pub use sink::Sink;
