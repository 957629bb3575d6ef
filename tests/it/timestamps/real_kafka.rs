//! Only a real broker refuses timestamps and deletes what is too old.

mod clocks;
mod kafka_3;
mod partial_outage;
mod retention;
