//! Refusals that only a real broker speaks: topics with limits, without permission, not there.

mod batches;
mod hidden_limits;
mod topics;
