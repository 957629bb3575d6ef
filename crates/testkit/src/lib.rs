//! Real servers for tests, the demo and the benchmarks. They are started on free ports in temporary
//! folders, can be killed, and are removed when the process ends (see [`guardian`]).
//!
//! | variable | means |
//! |---|---|
//! | `PG_BIN` | the folder with `initdb` and `postgres`, instead of the newest installed |
//! | `KAFKA_HOME` | an unpacked Apache Kafka, instead of the jars that `make setup` fetched |
//! | `KAFKA_3_HOME` | the same for a Kafka from before 4.0 |
//! | `TEST_BROKERS` | a running broker that tests can share, instead of one of our own |
//! | `KAFKA=mock` | tests share librdkafka's embedded broker |
//!
//! `scripts/setup compare` fetches what `debezium` runs.
//! `make setup` also fetches what `foreign` and `registry` run, which nothing replaces.
//!
//! A test uses a [`fixture::Fixture`] on the shared servers, or starts its own servers if it has to
//! stop them. If something is missing, the test fails with the fix; nothing is skipped silently.
//!
//! The embedded broker has no topic settings, no retention and no restart. A test that needs more
//! (also more than its 5 MiB per partition) has `real_kafka` in its module or name:
//! `make test KAFKA=mock` leaves those tests out with libtest's `--skip real_kafka`, which counts
//! them as "filtered out".

// Test code reports failures by panics. Each user of this crate needs another part of it.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub
)]

pub mod broker;
pub mod cache;
pub mod certificates;
pub mod check;
pub mod consumer;
pub mod debezium;
pub mod fixture;
#[cfg(feature = "registry")]
pub mod foreign;
pub mod guardian;
pub mod http;
pub mod java;
pub mod kafka;
pub mod mock;
pub mod mode;
pub mod name;
pub mod percentiles;
pub mod port;
pub mod postgres;
pub mod proxy;
#[cfg(feature = "registry")]
pub mod registry;
pub mod registry_stub;
pub mod relay;
pub mod shared;
pub mod wait;
