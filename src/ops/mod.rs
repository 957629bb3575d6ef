//! What operators see: metrics, state, HTTP.

mod encoded;
mod gauges;
mod http;
mod metrics;
mod parked;
mod process;
mod serve;
mod vitals;

pub(crate) use http::HttpServer;
pub(crate) use metrics::{Ignored, Metrics, Routes};
pub(crate) use parked::PollerMetrics;
pub(crate) use vitals::{SlotPosition, State, Vitals};
