//! The order service, run as it is.

mod real_kafka;
