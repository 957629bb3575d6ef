//! Memory is bounded whatever happens.

mod real_kafka;
