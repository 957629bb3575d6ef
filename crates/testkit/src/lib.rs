//! Real servers for tests, the demo and the benchmarks: started on free ports in temporary
//! folders, killed at will, gone when the process ends (see [`guardian`]).
//!
//! | variable | means |
//! |---|---|
//! | `PG_BIN` | the folder with `initdb` and `postgres`, instead of the newest installed |
//! | `KAFKA_HOME` | an unpacked Apache Kafka, instead of the jars that `make setup` fetched |
//! | `KAFKA_3_HOME` | the same for the Kafka from before 4.0 |
//! | `TEST_BROKERS` | a running broker that tests may share, instead of one of our own |
//! | `KAFKA=mock` | librdkafka's embedded broker is the one that tests share |
//!
//! A test takes a [`fixture::Fixture`] on the shared servers, or starts servers of its own if it
//! wants to stop them. What is missing fails the test with the way out; nothing is skipped in
//! silence.
//!
//! The embedded broker knows no topic settings, no retention and no restart. A test that needs
//! more (also more room than its 5 MiB a partition) has `real_kafka` in its module or name:
//! `make test KAFKA=mock` leaves those out with libtest's `--skip real_kafka`, which counts them
//! as "filtered out".

// Test code: a panic is how it reports. Each user of this folder needs another part of it.
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
pub mod fixture;
pub mod guardian;
pub mod kafka;
pub mod mock;
pub mod mode;
pub mod name;
pub mod percentiles;
pub mod port;
pub mod postgres;
pub mod proxy;
pub mod relay;
pub mod shared;
pub mod wait;
