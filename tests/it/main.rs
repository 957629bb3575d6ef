//! Tests on real servers: one binary, so that one Postgres and one Kafka serve them all.

// Test code: a panic is how it reports.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub
)]

mod admin;
mod backfill;
mod blocked;
mod checked_read;
mod cleaner;
mod compose;
mod coverage;
mod dead;
mod destination;
mod dockerfile;
mod embedded;
mod enqueue;
mod example;
mod existing;
mod failover;
mod faults;
mod halt;
mod harness;
mod http;
mod idle;
mod inbox;
mod inside;
mod kafka_security;
mod memory;
mod messages;
mod metric;
mod migrate;
mod occupant;
mod orders;
mod parking;
mod paused;
mod progress;
mod publish;
mod recover;
mod roles;
mod schema_change;
mod servers;
mod snapshot;
mod standby;
mod startup;
mod teardown;
mod tls;
mod undelivered;
mod unpublishable;
