//! The side table's statements on a real Postgres, without a relay.

mod claims;
mod other_servers;
pub mod rig;
mod settled;
mod upkeep;
mod values;
