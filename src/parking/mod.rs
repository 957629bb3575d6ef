//! Events that can't be published: what that means, where they wait, and how they leave.
//!
//! The relay parks such an event in `postrider.undelivered` and goes on; its position moves past the
//! event only once that row is committed. The [`poller`] tries parked events again, with a lease and
//! growing pauses, until they are delivered or dead. `postrider replay` publishes the dead.

mod content;
pub mod dead;
pub mod filter;
pub(crate) mod notices;
#[doc(hidden)]
pub mod poller;
pub(crate) mod renames;
pub mod replay;
pub(crate) mod sender;
pub(crate) mod session;
#[doc(hidden)]
pub mod store;
pub(crate) mod writer;
