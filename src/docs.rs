//! What the documentation claims, compared with the code.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use postrider_core::delivery::Reason;
use postrider_core::format::ValueFormat;
use postrider_core::route::DefaultHeader;

use crate::cli::Cli;
use crate::ops::State;
use crate::session_end::RestartReason;

const OPERATIONS: &str = include_str!("../docs/operations.md");
const UNDELIVERED: &str = include_str!("../docs/undelivered.md");
const ROUTING: &str = include_str!("../docs/routing.md");
const FORMATS: &str = include_str!("../docs/formats.md");
const RUNNING: &str = include_str!("../docs/running.md");
const METRICS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops");

/// The text below a heading, up to the next of its kind.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect(heading);
    rest.split("\n## ").next().unwrap()
}

/// What the first column of the section's tables has between backticks.
fn first_column<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let rows = section(page, heading).lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let names: BTreeSet<_> =
        cells.filter_map(|cell| cell.strip_prefix('`')?.split('`').next()).collect();
    assert!(!names.is_empty(), "no table below {heading}");
    names
}

#[test]
fn reasons() {
    let reasons = Reason::ALL.iter().map(|reason| reason.label()).collect();
    assert_eq!(first_column(UNDELIVERED, "Reasons"), reasons);
}

#[test]
fn default_headers() {
    let names = DefaultHeader::ALL.iter().map(|header| header.name()).collect();
    assert_eq!(first_column(ROUTING, "Headers"), names);
}

#[test]
fn formats() {
    for name in ValueFormat::ALL.map(ValueFormat::name) {
        assert!(FORMATS.contains(&format!("\n| [`{name}`](#")), "{name}");
    }
}

#[test]
fn states() {
    let states = State::ALL.iter().map(|state| state.name()).collect();
    assert_eq!(first_column(OPERATIONS, "States"), states);
}

#[test]
fn restarts() {
    let labels = RestartReason::ALL.iter().map(|reason| reason.label()).collect();
    assert_eq!(first_column(OPERATIONS, "Restarts"), labels);
}

#[test]
fn metrics() {
    let is_metric = |text: &&str| {
        ["outbox_", "postrider_", "process_"].iter().any(|prefix| text.starts_with(prefix))
    };
    let files = std::fs::read_dir(METRICS).unwrap().map(|file| file.unwrap().path());
    let sources: Vec<String> = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let registered = sources.iter().flat_map(|source| {
        let code = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        code.split('"').filter(is_metric)
    });
    let registered: BTreeSet<&str> = registered.collect();
    assert!(registered.len() > 20, "{registered:?}");
    let documented = first_column(OPERATIONS, "Metrics").into_iter().filter(is_metric);
    let stem = |name: &'static str| {
        if registered.contains(name) {
            name
        } else {
            name.strip_suffix("_total").or(name.strip_suffix("_info")).unwrap_or(name)
        }
    };
    assert_eq!(documented.map(stem).collect::<BTreeSet<_>>(), registered);
}

#[test]
fn commands_and_their_flags() {
    let pages = [RUNNING, OPERATIONS, UNDELIVERED].join("\n");
    let mut missing = Vec::new();
    for command in Cli::command().get_subcommands() {
        let name = format!("postrider {}", command.get_name());
        if !pages.contains(&name) {
            missing.push(name);
        }
        for command in std::iter::once(command).chain(command.get_subcommands()) {
            let flags = command.get_arguments().filter_map(|argument| argument.get_long());
            let flags = flags.map(|flag| format!("--{flag}"));
            missing.extend(flags.filter(|flag| !pages.contains(flag.as_str())));
        }
    }
    assert!(missing.is_empty(), "in no page: {missing:?}");
}

#[test]
fn exit_codes() {
    let table = section(OPERATIONS, "Exit codes");
    for code in crate::cli::EXIT_CODES {
        assert!(table.contains(&format!("\n| {code} | ")), "{code}");
    }
}
