//! Rows read from the tables themselves: correct despite a stop, ids of any kind, row-level
//! security and discarded events.

pub(crate) mod deleted;
mod lapses;
mod lease;
mod order;
mod parked;
mod stop;

pub(crate) use self::stop::slow_down;
