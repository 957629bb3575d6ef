//! The promise under faults: kills, restarts, broken links, other people's sessions. A load runs
//! through each of them, and afterwards every committed event is in Kafka, in order.

mod postgres_link;
mod postgres_restart;
mod real_kafka;
mod relay_kill;
mod sessions;
mod slot_busy;
mod stop;
