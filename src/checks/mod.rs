//! What must be true before something is done, each with its fix.

pub(crate) mod preflight;
mod slot;
pub(crate) mod table;
