//! Refusals that only a real broker gives: topics with limits, without permission, missing.

mod batches;
mod hidden_limits;
mod topics;
