//! What operators see: metrics, state, HTTP.

mod board;
mod encoded;
mod gauges;
mod http;
mod metrics;
mod page;
mod parked;
mod process;
mod serve;
mod vitals;

pub(crate) use board::{Board, NameError};
pub(crate) use http::{HttpError, HttpServer};
pub(crate) use metrics::{Ignored, Metrics, Routes};
pub(crate) use parked::PollerMetrics;
pub(crate) use vitals::{SlotPosition, State, Vitals};
