//! The example that newcomers copy, run as it is.

mod real_kafka;
