//! Events that can't be published.

mod poller;
mod store;
