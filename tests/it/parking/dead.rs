//! `postrider dead` and `postrider replay`: what people do about events that can't be published.

mod discard;
mod list;
mod usage;
