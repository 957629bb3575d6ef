//! `postrider dead` and `postrider replay`: what people do about events that can't be published.

mod discard;
mod list;
mod real_kafka;
mod replay;
mod replay_order;
mod replay_stop;
pub mod rig;
mod usage;
