//! What operators see: metrics, state, HTTP.

mod http;
mod metrics;
mod process;
mod vitals;

pub use http::{HttpError, HttpServer};
pub use metrics::{Ignored, Metrics, Route, Routes};
pub use vitals::{SlotPosition, State, Vitals};
