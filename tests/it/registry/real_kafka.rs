//! What consumers find in Kafka.

mod kills;
mod published;
mod unknown;
mod unreachable;
