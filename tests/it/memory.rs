//! Memory is always bounded.

mod real_kafka;
