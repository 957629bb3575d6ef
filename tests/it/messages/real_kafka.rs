//! Messages on a real broker: refusals and kills.

mod kills;
mod packs;
mod parked;
