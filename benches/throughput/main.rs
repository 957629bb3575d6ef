//! `make bench` measures
//!
//! - how fast the relay drains a backlog of rows and of messages, how late events arrive, and how
//!   many are published twice after a kill;
//! - the cost of each format and of templates;
//! - the cost of many topics and large events, of HTTP clients, and of events that can't be
//!   published;
//! - how soon the first event arrives after a start, and how long an event waits for others for
//!   missing topics;
//! - the cost of the library compared with INSERTs, and what the cleaner does;
//! - how fast a table that is older than its slot is published, and how long a standby takes to
//!   take over.
//!
//! Postgres and Kafka are real, and everything runs on this machine. Absolute figures depend on the
//! machine; only the ratios to the yardsticks of the same run can be compared: `pg_recvlogical`,
//! which only writes the stream to a file, and a bare librdkafka producer.
//!
//! | variable | means |
//! |---|---|
//! | `BENCH_ROWS` | rows of the backlog (1,000,000); `parking` takes half as many, `formats` and `growth` at most 400,000 |
//! | `BENCH_REPEAT` | how often each contestant drains it (2) |
//! | `BENCH_ONLY` | some of `producer,drain,formats,messages,growth,start,missing,http,latency,duplicates,parking,enqueue,cleaner,snapshot,takeover` |
//! | `BENCH_CASES` | of `growth` only cases with one of these in their names, as `dead,100 kB` |
//! | `BENCH_STRICT=1` | exit with code 1 if a target is missed |

// A benchmark is test-like code: it reports failures by panics.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod backlog;
mod cleaner;
mod drain;
mod duplicates;
mod enqueue;
mod formats;
mod growth;
mod http;
mod latency;
mod messages;
mod missing;
mod options;
mod parking;
mod producer;
mod recvlogical;
mod report;
mod running;
mod servers;
mod snapshot;
mod start;
mod table;
mod takeover;

use std::process::ExitCode;

use options::{Options, Part};
use report::Report;
use servers::Servers;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const PARTITION_COUNT: i32 = 6;
/// Rows per transaction of the backlogs.
const TRANSACTION_SIZES: [usize; 3] = [1, 10, 1000];

fn main() -> ExitCode {
    let options = Options::from_env();
    tell("starting Postgres and Kafka");
    let servers = Servers::start(options.tls);
    let mut report = Report::new(&options, &servers);
    println!("{}", report.setting());
    producer::warm_up(&servers);

    if options.wants(Part::Producer) {
        report.producer = Some(producer::measure(&servers, options.rows));
    }
    if options.wants(Part::Drain) {
        for size in TRANSACTION_SIZES {
            report.drains.push(drain::measure(&servers, &options, size));
        }
    }
    if options.wants(Part::Formats) {
        for size in formats::TRANSACTION_SIZES {
            report.formats.push(formats::measure(&servers, &options, size));
        }
    }
    if options.wants(Part::Messages) {
        for size in messages::TRANSACTION_SIZES {
            report.messages.push(messages::measure(&servers, &options, size));
        }
    }
    if options.wants(Part::Growth) {
        report.growth = growth::measure(&servers, options.rows, &options.cases);
    }
    if options.wants(Part::Start) {
        report.start = start::measure(&servers);
    }
    if options.wants(Part::Missing) {
        report.missing = Some(missing::measure(&servers));
    }
    if options.wants(Part::Http) {
        report.http = Some(http::measure(&servers, &options));
    }
    if options.wants(Part::Latency) {
        report.latency = Some(latency::measure(&servers));
    }
    if options.wants(Part::Duplicates) {
        report.duplicates = Some(duplicates::measure(&servers));
    }
    if options.wants(Part::Parking) {
        report.parking = Some(parking::measure(&servers, &options));
    }
    if options.wants(Part::Enqueue) {
        report.enqueue = Some(enqueue::measure(&servers));
    }
    if options.wants(Part::Cleaner) {
        report.cleaner = Some(cleaner::measure(&servers, options.rows));
    }
    if options.wants(Part::Snapshot) {
        report.snapshot = Some(snapshot::measure(&servers, options.rows));
    }
    if options.wants(Part::Takeover) {
        report.takeover = Some(takeover::measure(&servers));
    }
    drop(servers);

    let table = report.table();
    println!("\n{table}\nwritten to {}", report.save().display());
    if options.strict && table.misses() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Shows progress.
fn tell(line: impl std::fmt::Display) {
    eprintln!("bench: {line}");
}
