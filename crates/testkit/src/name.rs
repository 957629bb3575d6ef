//! Names for databases, slots and topics on shared servers.

use std::sync::atomic::{AtomicU32, Ordering};

/// A name that starts with `prefix` and that no other test uses, in this run or another one.
pub fn unique(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    // The random part: a broker given by TEST_BROKERS outlives this process.
    format!("{prefix}_{number}_{:08x}", rand::random::<u32>())
}
