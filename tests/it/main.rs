//! Tests on real servers: one binary, so that one Postgres and one Kafka serve them all.
//!
//! Each module is one behaviour; `parking` has everything about events that can't be published. What several
//! behaviours need is in `harness`. Tests that need a real Kafka have `real_kafka` in their path.

// Test code: it reports by panicking.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub
)]

mod backfill;
mod blocked_on_broker;
mod cleaner;
mod compose;
mod coverage;
mod debezium;
mod destination;
mod dockerfile;
mod docs_examples;
mod enqueue;
mod examples;
mod existing;
mod failover;
mod faults;
mod foreign;
mod harness;
mod http;
mod idle;
mod import;
mod inbox;
mod kafka_security;
mod memory;
mod messages;
mod mid_transaction;
mod migrate;
mod own_sink;
mod parking;
mod paused;
mod progress;
mod publish;
mod recover;
mod registry;
mod roles;
mod routing;
mod schema_change;
mod snapshot;
mod standby;
mod startup;
mod teardown;
mod timestamps;
mod tls;
