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
//! The modules are in the order of the data:
//!
//! | module | what it does |
//! |---|---|
//! | `cli` | reads the command line; one file per command |
//! | `config` | turns file, environment and flags into what they mean, and reports all errors |
//! | [`relay`] | runs sessions, one after the other; `relay/session.rs` is the loop |
//! | `engine` | holds what outlives a session: sink, breaker, metrics |
//! | `background` | runs the thread for postrider's own tables |
//! | `session_end` | decides why a session ends, and who must act |
//! | `restarts` | pauses between two sessions, and logs why |
//! | `replication` | receives the stream and confirms positions: one socket, one owner |
//! | `publish` | hands rows over to the sink, settles their acknowledgements, retries |
//! | [`sink`] | defines what a destination is; `sink/kafka` is Kafka |
//! | `parking` | stores events that can't be published, and retries or replays them |
//! | `progress` | stores positions, and what is promised for the slot |
//! | `backfill` | publishes rows that are already in the tables: snapshot and `recover` |
//! | `standby` | waits for a slot that another instance has, and takes over |
//! | `cleaner` | deletes old rows that are certainly done |
//! | `checks` | finds what must be fixed before something is done |
//! | `rights` | finds what the role lacks, with the statements that grant it |
//! | `schema` | holds the migrations, and what all SQL has to agree on |
//! | `setup` | creates and drops what postrider needs: `migrate`, `teardown` |
//! | `import` | turns the configuration of another tool into one of ours |
//! | `ops` | shows metrics, state and probes by HTTP |
//! | `postgres` | makes the ordinary connections, and explains their errors |
//! | [`shutdown`] | stops a running relay: first it drains, then it stops at once |
//! | `pulse` | watches whether Postgres still answers |
//! | `clock`, `retry`, `log_limit`, `plural` | help with time, pauses, repeated log lines, nouns |
//! | `internals`, `docs` | serve only tests |
//!
//! Applications use the package `postrider-outbox`, which is re-exported here. Everything that does
//! no I/O is in the package `postrider-core`.

mod cli;

mod config;

pub mod relay;

mod engine;

mod background;

mod session_end;

mod restarts;

mod replication;

mod publish;

pub mod sink;

mod registry;

mod parking;

mod progress;

mod backfill;

mod standby;

mod cleaner;

mod checks;

mod rights;

mod schema;

mod setup;

mod import;

mod ops;

mod postgres;

pub mod shutdown;

mod pulse;

mod clock;

mod retry;

mod log_limit;

mod plural;

#[doc(hidden)]
pub mod internals;

#[cfg(test)]
mod docs;

#[doc(hidden)]
pub use cli::main;
pub use config::{Config, ConfigError, Needs};
pub use postrider_core::delivery::{Class, Outcome};
pub use postrider_outbox::{
    Enqueued, Event, Outbox, emit, emit_batch, enqueue, enqueue_batch, enqueue_new, inbox,
    with_transaction,
};

pub use relay::{Endpoint, Relay};
pub use sink::Sink;
