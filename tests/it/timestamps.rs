//! Which timestamp a record gets, so that the broker accepts it and retention keeps it.

mod real_kafka;

use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
