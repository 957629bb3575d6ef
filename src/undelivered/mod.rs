//! Events that can't be published: what that means, where they wait, and how they leave.
//!
//! The relay parks such an event in `postrider.undelivered` and goes on; its position moves past the
//! event only once that row is committed. The [`poller`] tries parked events again, with a lease and
//! growing pauses, until they are delivered or dead. `postrider replay` publishes the dead.

pub(crate) mod backoff;
pub(crate) mod breaker;
pub mod class;
pub mod dead;
pub(crate) mod dispatch;
pub mod filter;
pub(crate) mod keys;
pub(crate) mod notices;
pub mod order;
pub mod parcel;
pub(crate) mod parker;
#[doc(hidden)]
pub mod poller;
pub mod replay;
#[doc(hidden)]
pub mod store;

pub use class::{Class, Outcome, Reason, Refusal};
pub use order::{Line, OrderKey, Within};
pub use parcel::{Fate, Form, Parcel};
