//! The records of Debezium's Outbox Event Router, byte for byte: a real relay publishes the rows of each
//! case in `tests/debezium/cases`, and does what is recorded of the real Debezium in
//! `tests/debezium/recorded`. What Debezium stops at is parked, and everything after it published.
//!
//! `make compare-debezium` runs Debezium itself, and records again with `RECORD=1`.

use std::path::{Path, PathBuf};

use testkit::debezium::comparison::{judge, read_known_differences};
use testkit::debezium::record::{self, topics};
use testkit::debezium::{CaseFile, Publisher};
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");

/// A test for each file of cases: `payloads_jsonb` is `payloads-jsonb.json`.
macro_rules! replays {
    ($($file:ident)*) => {
        $(
            #[test]
            fn $file() {
                replay(&stringify!($file).replace('_', "-"));
            }
        )*

        const REPLAYED: &[&str] = &[$(stringify!($file)),*];
    };
}

replays! {
    context
    envelope
    envelope_routes
    envelope_types
    expand
    expand_jsonb
    expand_order
    headers
    headers_computed
    headers_defaults
    headers_order
    headers_required
    headers_special
    ids_number
    ids_text
    keys
    names
    operations
    operations_fatal
    partitions
    payloads_bytea
    payloads_bytes_of_text
    payloads_json
    payloads_jsonb
    payloads_required
    payloads_text
    quarkus
    routing
    schema_version
    server_basic
    server_bytes
    server_quarkus
    tables
    timestamps
    tracing
    types_rare
}

#[test]
fn every_file_is_replayed() {
    let files = CaseFile::read_all(&folder().join("cases"));
    let mut names: Vec<String> = files.iter().map(|file| file.name().replace('-', "_")).collect();
    names.sort_unstable();
    assert_eq!(names, REPLAYED);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/debezium")
}

#[track_caller]
fn replay(name: &str) {
    let file = CaseFile::read(&folder().join(format!("cases/{name}.json")));
    let recorded = record::read(&folder().join(format!("recorded/{name}.json")));
    let recorded = recorded.expect("nothing is recorded: run `make compare-debezium RECORD=1`");
    let mut known = read_known_differences(&folder().join("known-differences.json"));
    known.retain(|it| it.case.starts_with(&format!("{name}/")));
    let (postgres, broker) = shared::pair();
    let mut publisher = Publisher::new(Path::new(BINARY), &postgres.address(), &broker);
    let mut unknown = Vec::new();
    let mut used = vec![false; known.len()];
    for case in file.cases() {
        let expected = &recorded[&case.name];
        let found = publisher.publish(&case, &topics(expected));
        for difference in judge(&case, expected, found) {
            match known.iter().position(|known| known.covers(&difference)) {
                Some(position) => used[position] = true,
                None => unknown
                    .push(format!("{} {}: {}", difference.case, difference.id, difference.what)),
            }
        }
    }
    assert!(unknown.is_empty(), "other than Debezium ({}):\n{}", unknown.len(), unknown.join("\n"));
    let unused: Vec<_> = known.iter().zip(&used).filter(|(_, used)| !**used).collect();
    assert!(unused.is_empty(), "known differences that are none: {unused:?}");
}
