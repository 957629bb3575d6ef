//! How fast the same backlog is drained in each format, and by templates, against raw records.

use serde::Serialize;

use crate::PARTITION_COUNT;
use crate::backlog::{Backlog, Kind};
use crate::drain::{RelayRun, run_relay};
use crate::options::Options;
use crate::recvlogical::{self, Values};
use crate::report::median;
use crate::servers::Servers;
use crate::table::{Table, Target};
use crate::tell;

/// Rows per transaction of the backlogs.
pub(crate) const TRANSACTION_SIZES: [usize; 2] = [10, 1000];
const ROWS_MAX: usize = 400_000;

/// A configuration.
struct Case {
    name: &'static str,
    /// Its variables and their values.
    settings: &'static [&'static [(&'static str, &'static str)]],
    /// What is added to the name of the topic.
    topic_suffix: &'static str,
    /// The aim for the ratio to raw records.
    target: Target,
}

/// The default configuration, which the others are compared with.
const RAW: usize = 0;

/// The preset on the benchmark's own table, with the topic and the key of raw records.
const DEBEZIUM: [(&str, &str); 6] = [
    ("POSTRIDER_POSTGRES_PRESET", "debezium"),
    ("POSTRIDER_DEBEZIUM_ROUTE_BY_FIELD", "topic"),
    ("POSTRIDER_DEBEZIUM_ROUTE_TOPIC_REPLACEMENT", "${routedByValue}"),
    ("POSTRIDER_DEBEZIUM_TABLE_FIELD_EVENT_ID", "idempotency_key"),
    ("POSTRIDER_DEBEZIUM_TABLE_FIELD_EVENT_KEY", "ordering_key"),
    ("POSTRIDER_DEBEZIUM_TABLE_FIELDS_ADDITIONAL_PLACEMENT", "type:header:eventType"),
];
const WITH_SCHEMAS: [(&str, &str); 3] = [
    ("POSTRIDER_DEBEZIUM_KEY", "json-with-schemas"),
    ("POSTRIDER_DEBEZIUM_VALUE", "json-with-schemas"),
    ("POSTRIDER_DEBEZIUM_HEADER", "json-with-schemas"),
];

const CASES: [Case; 9] = [
    Case { name: "raw", settings: &[], topic_suffix: "", target: Target::None },
    Case {
        name: "templates",
        settings: &[&[
            ("POSTRIDER_ROUTE_TOPIC", "{topic}.{type}"),
            // The keys are the same as without it, and so are the partitions.
            ("POSTRIDER_ROUTE_KEY", "ordering_key,tenant,idempotency_key"),
            ("POSTRIDER_ROUTE_DEFAULT_HEADERS", "false"),
            (
                "POSTRIDER_ROUTE_HEADERS",
                "eventId={idempotency_key},eventType=v1.{type},customer={tenant}/{ordering_key|}",
            ),
        ]],
        topic_suffix: ".order.placed",
        target: Target::AtLeast(0.95),
    },
    Case {
        name: "cloudevents-binary",
        settings: &[&[
            ("POSTRIDER_FORMAT_VALUE", "cloudevents-binary"),
            ("POSTRIDER_FORMAT_SOURCE", "/bench/orders"),
        ]],
        topic_suffix: "",
        target: Target::AtLeast(0.85),
    },
    Case {
        name: "cloudevents-structured",
        settings: &[&[
            ("POSTRIDER_FORMAT_VALUE", "cloudevents-structured"),
            ("POSTRIDER_FORMAT_SOURCE", "/bench/orders"),
        ]],
        topic_suffix: "",
        target: Target::None,
    },
    Case {
        name: "json",
        settings: &[&[("POSTRIDER_FORMAT_VALUE", "json")]],
        topic_suffix: "",
        target: Target::AtLeast(0.75),
    },
    Case {
        name: "protobuf",
        settings: &[&[("POSTRIDER_FORMAT_VALUE", "protobuf")]],
        topic_suffix: "",
        target: Target::None,
    },
    Case {
        name: "raw with a schema id",
        settings: &[&[("POSTRIDER_FORMAT_SCHEMA_ID", "7")]],
        topic_suffix: "",
        target: Target::None,
    },
    Case {
        name: "debezium, string converters",
        settings: &[&DEBEZIUM],
        topic_suffix: "",
        target: Target::AtLeast(0.95),
    },
    Case {
        name: "debezium, JSON with schemas",
        settings: &[&DEBEZIUM, &WITH_SCHEMAS],
        topic_suffix: "",
        target: Target::AtLeast(0.7),
    },
];

#[derive(Serialize)]
pub(crate) struct Formats {
    rows_per_transaction: usize,
    rows: usize,
    names: Vec<&'static str>,
    rounds: Vec<Round>,
}

/// All contestants, one directly after the other.
#[derive(Serialize)]
struct Round {
    recvlogical_seconds: f64,
    /// In the order of [`CASES`].
    runs: Vec<RelayRun>,
}

impl Formats {
    /// The median of the rounds' ratios: runs of one round meet the same state of the machine.
    fn median(&self, value: impl Fn(&Round) -> Option<f64>) -> f64 {
        median(self.rounds.iter().filter_map(value))
    }

    fn ratio_to_raw(&self, case: usize) -> f64 {
        self.median(|round| Some(round.runs.get(RAW)?.seconds / round.runs.get(case)?.seconds))
    }

    fn ratio_to_recvlogical(&self, case: usize) -> f64 {
        self.median(|round| Some(round.recvlogical_seconds / round.runs.get(case)?.seconds))
    }

    fn cpu_micros_per_event(&self, case: usize) -> f64 {
        let seconds = self.median(|round| Some(round.runs.get(case)?.cpu_seconds));
        seconds * 1e6 / self.rows as f64
    }

    fn peak_memory_mib(&self, case: usize) -> f64 {
        let peaks = self.rounds.iter().filter_map(|it| Some(it.runs.get(case)?.peak_memory_bytes));
        peaks.max().unwrap_or(0) as f64 / f64::from(1 << 20)
    }
}

pub(crate) fn measure(servers: &Servers, options: &Options, size: usize) -> Formats {
    let rows = options.rows.min(ROWS_MAX);
    tell(format!("writing {rows} rows for {} formats, {size} per transaction", CASES.len()));
    let cases = 0..CASES.len();
    let slots: Vec<String> = (0..options.repeat)
        .flat_map(|round| {
            cases.clone().map(move |case| slot(round, case)).chain([yardstick(round)])
        })
        .collect();
    let mut backlog = Backlog::write(servers, Kind::Rows, rows, size, &slots);
    let suffixes = CASES.iter().map(|case| case.topic_suffix).filter(|suffix| !suffix.is_empty());
    for suffix in suffixes {
        let name = format!("events{suffix}");
        backlog.fixture.create_topic(&name, PARTITION_COUNT, &[("file.delete.delay.ms", "1000")]);
    }
    let rounds = (0..options.repeat).map(|round| play(servers, &mut backlog, round)).collect();
    check_topics(&backlog, options.repeat);
    let names = CASES.iter().map(|case| case.name).collect();
    Formats { rows_per_transaction: size, rows, names, rounds }
}

fn play(servers: &Servers, backlog: &mut Backlog, round: usize) -> Round {
    let slot_of_yardstick = yardstick(round);
    let recvlogical = recvlogical::drain(servers, backlog, &slot_of_yardstick, Values::Text);
    let mut runs: Vec<(usize, RelayRun)> = Vec::with_capacity(CASES.len());
    let mut run = |number: usize, case: &Case| {
        for (name, value) in case.settings.iter().copied().flatten() {
            backlog.fixture.set(name, value);
        }
        let run = run_relay(backlog, &slot(round, number));
        for (name, _) in case.settings.iter().copied().flatten() {
            backlog.fixture.unset(name);
        }
        tell(format!("  {}: {:.2} s, CPU {:.2} s", case.name, run.seconds, run.cpu_seconds));
        runs.push((number, run));
    };
    // The order alternates, because later runs find another state of the machine.
    let cases = CASES.iter().enumerate();
    if round.is_multiple_of(2) {
        cases.for_each(|(number, case)| run(number, case));
    } else {
        cases.rev().for_each(|(number, case)| run(number, case));
    }
    runs.sort_by_key(|(number, _)| *number);
    let recvlogical_seconds = recvlogical.as_secs_f64();
    tell(format!("  pg_recvlogical {recvlogical_seconds:.2} s"));
    Round { recvlogical_seconds, runs: runs.into_iter().map(|(_, run)| run).collect() }
}

/// Each topic has the events of its cases.
fn check_topics(backlog: &Backlog, repeat: usize) {
    let consumer = backlog.fixture.consumer();
    for case in &CASES {
        let writers = CASES.iter().filter(|it| it.topic_suffix == case.topic_suffix).count();
        let topic = format!("{}{}", backlog.topic, case.topic_suffix);
        let published: i64 = consumer.end_offsets(&topic).iter().sum();
        let expected = backlog.rows * repeat * writers;
        assert_eq!(usize::try_from(published), Ok(expected), "records in {topic}");
    }
}

/// A slot can be drained once.
fn slot(round: usize, case: usize) -> String {
    format!("bench_format_{round}_{case}")
}

fn yardstick(round: usize) -> String {
    format!("bench_format_{round}_recvlogical")
}

pub(crate) fn add_to(table: &mut Table, all: &[Formats]) {
    let rows = all.first().map_or(0, |it| it.rows);
    let repeat = all.first().map_or(0, |it| it.rounds.len());
    table.heading(format!("formats: a backlog of {rows} rows, median of {repeat}"));
    let sizes = all.iter().map(|it| it.rows_per_transaction as f64).collect();
    table.row("rows per transaction", sizes, 0, Target::None);
    let mut add = |title: &str, decimals, target: fn(&Case) -> Target, value: fn(&_, _) -> f64| {
        table.heading(format!("formats: {title}"));
        for (number, case) in CASES.iter().enumerate() {
            let values = all.iter().map(|it| value(it, number)).collect();
            table.row(case.name, values, decimals, target(case));
        }
    };
    add("ratio to raw", 2, |case| case.target, Formats::ratio_to_raw);
    add("ratio to pg_recvlogical", 2, |_| Target::None, Formats::ratio_to_recvlogical);
    add("CPU per event, µs", 1, |_| Target::None, Formats::cpu_micros_per_event);
    add("peak memory, MiB", 1, |_| Target::AtMost(48.0), Formats::peak_memory_mib);
}
