//! `make compare-debezium`: the same rows, published by the real Debezium and by postrider, byte for byte.
//!
//! `RECORD=1` writes what Debezium does into `tests/debezium/recorded`, from which the tests replay it.
//! Otherwise it must do what is recorded. `CASES=NAME` takes only cases whose names begin with that.
//! `PARTS="cases takeover poison drain"` takes only some of the parts.
//! `DEBEZIUM=recorded` compares postrider with what is recorded, without running Debezium.

// It reports failures by panics, as tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod cases;
mod debezium;
mod drain;
mod observe;
mod poison;
mod reader;
mod servers;
mod site;
mod slot;
mod table;
mod takeover;

use std::process::ExitCode;

use servers::Servers;

/// Returns whether all is well.
type Part = fn(&Servers) -> bool;

fn main() -> ExitCode {
    let servers = Servers::start();
    let all: [(&str, Part); 4] = [
        ("cases", cases::compare),
        ("takeover", takeover::rehearse),
        ("poison", poison::compare),
        ("drain", drain::compare),
    ];
    let parts = std::env::var("PARTS").unwrap_or_default();
    let is_asked = |name: &str| parts.is_empty() || parts.split(' ').any(|part| part == name);
    let mut is_good = true;
    for (_, part) in all.iter().filter(|(name, _)| is_asked(name)) {
        is_good &= part(&servers);
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
