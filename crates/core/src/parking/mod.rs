//! Rules for events that can't be published: which keys wait for them, when to stop parking, when
//! to retry.

pub mod backoff;
pub mod breaker;
mod counts;
mod event;
pub mod keys;
pub mod malformed;
pub mod notices;

pub use counts::{Counts, LiveCount, LiveTotal, Observer, Orphans, ReplayedCount, Status};
pub use event::*;
