//! What to run, from the environment.

use std::env::var;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Producer,
    Drain,
    Formats,
    Latency,
    Duplicates,
    Parking,
    Messages,
    Growth,
    Start,
    Missing,
    Http,
    Enqueue,
    Cleaner,
    Snapshot,
    Takeover,
}

/// In the order in which they run.
const ALL: [(&str, Part); 15] = [
    ("producer", Part::Producer),
    ("drain", Part::Drain),
    ("formats", Part::Formats),
    ("messages", Part::Messages),
    ("growth", Part::Growth),
    ("start", Part::Start),
    ("missing", Part::Missing),
    ("http", Part::Http),
    ("latency", Part::Latency),
    ("duplicates", Part::Duplicates),
    ("parking", Part::Parking),
    ("enqueue", Part::Enqueue),
    ("cleaner", Part::Cleaner),
    ("snapshot", Part::Snapshot),
    ("takeover", Part::Takeover),
];

pub(crate) struct Options {
    pub(crate) rows: usize,
    pub(crate) repeat: usize,
    pub(crate) strict: bool,
    /// Postgres over TLS, for both contestants: they prefer it if the server supports it.
    pub(crate) tls: bool,
    /// Parts of the names of cases.
    pub(crate) cases: Vec<String>,
    parts: Vec<Part>,
}

impl Options {
    pub(crate) fn from_env() -> Options {
        let parts = match var("BENCH_ONLY") {
            Ok(names) if !names.is_empty() => names.split(',').map(part).collect(),
            _ => ALL.iter().map(|(_, part)| *part).collect(),
        };
        Options {
            rows: number("BENCH_ROWS", 1_000_000),
            repeat: number("BENCH_REPEAT", 2),
            strict: switch("BENCH_STRICT"),
            tls: switch("BENCH_TLS"),
            cases: var("BENCH_CASES").map_or_else(
                |_| Vec::new(),
                |names| names.split(',').map(|name| name.trim().to_owned()).collect(),
            ),
            parts,
        }
    }

    pub(crate) fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

fn part(name: &str) -> Part {
    let found = ALL.iter().find(|(known, _)| *known == name.trim());
    found.map(|(_, part)| *part).unwrap_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|(known, _)| *known).collect();
        panic!("BENCH_ONLY has no part `{name}`; the parts are {}", known.join(", "))
    })
}

fn switch(name: &str) -> bool {
    var(name).is_ok_and(|value| value == "1")
}

fn number(name: &str, default: usize) -> usize {
    let Ok(text) = var(name) else { return default };
    let number: usize = text.replace(['_', ','], "").parse().unwrap_or(0);
    assert!(number > 0, "{name}={text} is not a number above 0");
    number
}
