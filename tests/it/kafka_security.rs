//! Brokers that require authentication.

mod real_kafka;
