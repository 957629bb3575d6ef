//! The harness tests itself: a test that trusts a broken one proves nothing.

mod fixture;
mod guardian;
mod mock;
mod postgres;
mod proxy;
mod real_kafka;
mod relay;
mod verdict;
