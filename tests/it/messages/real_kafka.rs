//! Messages on a real broker: what it refuses, and kills.

mod kills;
mod packs;
mod parked;
