//! What the poller tells others: the relay about keys, the metrics about events.

use std::time::Instant;

use crate::parking::store::Counts;
use postrider_core::delivery::Class;
use postrider_core::parking::OrderKey;

/// Something was delivered from the side table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDelivered {
    /// Its key.
    pub key: OrderKey,
    /// How many events of the key are still there, counted up to one more than a batch.
    pub live: usize,
}

/// Hears what the poller does, for the metrics.
pub trait Observer {
    /// An event was delivered this long after its commit.
    fn delivered(&mut self, table: &str, topic: &str, latency_seconds: f64);
    /// An event was refused.
    fn failed(&mut self, table: &str, topic: &str, class: Class);
    /// An event will not be tried again.
    fn died(&mut self, table: &str, topic: &str);
    /// What was in the side table when the count began.
    fn counted(&mut self, counts: &Counts, began: Instant);
    /// How many times events of another slot were taken over.
    fn taken_over(&mut self, takeovers: i64);
    /// The side table could not be asked.
    fn fetch_error(&mut self);
}
