//! What several behaviours need: servers of special kinds, a relay under load, and readers of what it reports.

pub mod checked_read;
pub mod halt;
pub mod instances;
pub mod load;
pub mod metrics;
pub mod outbox;
pub mod parked_events;
pub mod rig;
pub mod servers;
pub mod slot;
pub mod slot_holder;
mod tests;
pub mod topics;
