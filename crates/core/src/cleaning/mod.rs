//! Rules for deleting rows of the outbox: which are certainly published, and since when.

pub mod lateness;
pub mod rule;
