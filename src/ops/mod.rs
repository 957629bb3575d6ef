//! What operators see: metrics, state, HTTP.

mod gauges;
mod http;
mod metrics;
mod metrics_text;
mod overview;
mod page;
mod parked;
mod process;
mod relay_gauges;
mod serve;
mod state;
mod vitals;

pub(crate) use http::{HttpError, HttpServer};
pub(crate) use metrics::{Ignored, Metrics, Routes};
pub(crate) use overview::{NameError, Overview};
pub(crate) use parked::PollerMetrics;
pub(crate) use state::State;
pub(crate) use vitals::{SlotPosition, Vitals};
