//! `postrider dead`: how operators handle events that can't be published.

mod discard;
mod list;
mod usage;
