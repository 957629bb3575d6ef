//! Brokers that don't let everybody in.

mod real_kafka;
