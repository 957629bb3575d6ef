//! Refusals that only a real broker speaks: topics with limits, without permission, not there.

mod batches;
mod before_four;
mod clocks;
mod denied;
mod partial_outage;
mod retention;
mod topics;
