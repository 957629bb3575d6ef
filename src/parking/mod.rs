//! Events that can't be published: where they wait, and how they leave.
//!
//! The relay parks such an event in `postrider.undelivered` and continues; its position moves past
//! the event only once that row is committed. The [`poller`] retries parked events, with a lease
//! and with backoff, until they are delivered or dead. `postrider replay` publishes dead events.

pub(crate) mod dead;
pub(crate) mod filter;
pub(crate) mod notices;
#[doc(hidden)]
pub(crate) mod poller;
mod references;
pub(crate) mod renames;
pub(crate) mod replay;
pub(crate) mod sender;
pub(crate) mod session;
#[doc(hidden)]
pub(crate) mod store;
pub(crate) mod writer;
