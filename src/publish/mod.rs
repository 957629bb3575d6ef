//! From a row to the destination: what is in flight, what waits, and what became of it.

pub(crate) mod attempt;
pub(crate) mod flight;
mod halting;
pub(crate) mod outgoing;
pub(crate) mod raw_event;
mod retry;
mod room;
mod settle;
pub(crate) mod topic_queues;
