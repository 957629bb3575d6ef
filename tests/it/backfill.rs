//! Rows read from the tables themselves: what a stop, ids of any kind, row-level security and events
//! that were given up must not break.

pub(crate) mod deleted;
mod lapses;
mod lease;
mod order;
mod parked;
mod stop;

pub(crate) use self::stop::slow_down;
