//! Rows read from the tables themselves: what a stop, ids of any kind, row-level security and events
//! that were given up must not break.

mod order;
mod parked;
mod stop;
