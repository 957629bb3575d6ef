//! What operators see: metrics, state, HTTP.

mod gauges;
mod http;
mod metrics;
mod metrics_text;
mod overview;
mod page;
mod parked;
mod poller_metrics;
mod process;
mod relay_gauges;
mod routes;
mod serve;
mod state;
mod vitals;

pub(crate) use http::{HttpError, HttpServer};
pub(crate) use metrics::{Ignored, Metrics};
pub(crate) use overview::{NameError, Overview};
pub(crate) use poller_metrics::PollerMetrics;
pub(crate) use routes::Routes;
pub(crate) use state::State;
pub(crate) use vitals::{SlotPosition, Vitals};
