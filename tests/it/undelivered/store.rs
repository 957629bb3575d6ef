//! The side table's statements on a real Postgres, without a relay.

mod claims;
mod home;
pub mod rig;
mod settled;
mod upkeep;
mod values;
