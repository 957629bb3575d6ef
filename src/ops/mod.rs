//! What operators see: metrics, state, HTTP.

mod encoded;
mod gauges;
mod http;
mod metrics;
mod parked;
mod process;
mod serve;
mod vitals;

pub use http::{HttpError, HttpServer};
pub use metrics::{Ignored, Metrics, Route, Routes};
pub use parked::PollerMetrics;
pub use vitals::{SlotPosition, State, Vitals};
