//! `make compare-debezium`: the same rows, published by the real Debezium and by postrider, byte for byte.
//!
//! `RECORD=1` writes what Debezium does into `tests/debezium/recorded`, from which the tests replay it.
//! Otherwise it must do what is recorded. `CASES=NAME` takes only cases whose names begin with that.
//! `DEBEZIUM=recorded` compares postrider with what is recorded, without running Debezium.

// It reports failures by panics, as tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod cases;
mod debezium;
mod observe;
mod reader;
mod servers;
mod slot;
mod table;
mod takeover;

use std::process::ExitCode;

use servers::Servers;

fn main() -> ExitCode {
    let servers = Servers::start();
    let parts = std::env::var("PARTS").unwrap_or_else(|_| "cases takeover".to_owned());
    let mut is_good = true;
    for part in parts.split_whitespace() {
        is_good &= match part {
            "cases" => cases::compare(&servers),
            "takeover" => takeover::rehearse(&servers),
            other => panic!("PARTS may have `cases` and `takeover`, and not {other:?}"),
        };
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
