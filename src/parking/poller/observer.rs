//! What the poller reports to the relay.

use postrider_core::parking::OrderKey;

/// Something was delivered from the side table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDelivered {
    /// Its key.
    pub key: OrderKey,
    /// How many events of the key are still there, counted up to one more than a batch.
    pub live: usize,
}
