//! Refusals that only a real broker speaks: topics with limits, without permission, not there.

mod admin;
mod batches;
mod denied;
mod retention;
mod topics;
