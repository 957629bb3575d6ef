//! The results: a table for people, JSON for programs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use crate::cleaner::Cleaning;
use crate::drain::Drain;
use crate::duplicates::Duplicates;
use crate::enqueue::Enqueue;
use crate::formats::{self, Formats};
use crate::growth::{self, Growth};
use crate::http::Http;
use crate::latency::Latency;
use crate::messages::Messages;
use crate::missing::Missing;
use crate::options::Options;
use crate::parking::{Comparison, Parking};
use crate::producer::Bare;
use crate::servers::Servers;
use crate::snapshot::Snapshot;
use crate::start::{self, Start};
use crate::table::{Table, Target};
use crate::takeover::Takeover;

#[derive(Serialize)]
pub(crate) struct Report {
    begun_at: String,
    cores: usize,
    rows: usize,
    repeat: usize,
    postgres_settings: Vec<(String, String)>,
    pub(crate) producer: Option<Bare>,
    pub(crate) drains: Vec<Drain>,
    pub(crate) formats: Vec<Formats>,
    pub(crate) messages: Vec<Messages>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) start: Vec<Start>,
    pub(crate) missing: Option<Missing>,
    pub(crate) http: Option<Http>,
    pub(crate) latency: Option<Latency>,
    pub(crate) duplicates: Option<Duplicates>,
    pub(crate) parking: Option<Parking>,
    pub(crate) enqueue: Option<Enqueue>,
    pub(crate) cleaner: Option<Cleaning>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) takeover: Option<Takeover>,
}

impl Report {
    pub(crate) fn new(options: &Options, servers: &Servers) -> Report {
        Report {
            begun_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            rows: options.rows,
            repeat: options.repeat,
            postgres_settings: servers.settings(),
            producer: None,
            drains: Vec::new(),
            formats: Vec::new(),
            messages: Vec::new(),
            growth: Vec::new(),
            start: Vec::new(),
            missing: None,
            http: None,
            latency: None,
            duplicates: None,
            parking: None,
            enqueue: None,
            cleaner: None,
            snapshot: None,
            takeover: None,
        }
    }

    /// The machine and servers that the figures were measured on.
    pub(crate) fn setting(&self) -> String {
        let settings: Vec<String> =
            self.postgres_settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        format!(
            "{} cores for everything\nPostgres: {}\nKafka: one node, {} partitions, acks=all",
            self.cores,
            settings.join(", "),
            crate::PARTITION_COUNT,
        )
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::default();
        if !self.drains.is_empty() {
            self.add_drains(&mut table);
        }
        if !self.formats.is_empty() {
            formats::add_to(&mut table, &self.formats);
        }
        if !self.messages.is_empty() {
            self.add_messages(&mut table);
        }
        if let Some(bare) = &self.producer {
            table.heading("librdkafka alone, records of the same size".to_owned());
            table.row("events/s", vec![bare.rate()], 0, Target::None);
            table.row("CPU per event, µs", vec![bare.cpu_micros_per_event()], 1, Target::None);
        }
        if !self.growth.is_empty() {
            growth::add_to(&mut table, &self.growth);
        }
        if !self.start.is_empty() {
            start::add_to(&mut table, &self.start);
        }
        if let Some(missing) = &self.missing {
            missing.add_to(&mut table);
        }
        if let Some(http) = &self.http {
            http.add_to(&mut table);
        }
        if let Some(latency) = &self.latency {
            add_latency(&mut table, latency);
        }
        if let Some(duplicates) = &self.duplicates {
            add_duplicates(&mut table, duplicates);
        }
        if let Some(parking) = &self.parking {
            add_parking(&mut table, parking);
        }
        if let Some(enqueue) = &self.enqueue {
            add_enqueue(&mut table, enqueue);
        }
        if let Some(cleaning) = &self.cleaner {
            add_cleaner(&mut table, cleaning);
        }
        if let Some(snapshot) = &self.snapshot {
            let rows = snapshot.rows;
            table.heading(format!("publishing {rows} rows that are older than the slot"));
            table.row("rows/s", vec![snapshot.rate()], 0, Target::AtLeast(100_000.0));
            let memory = snapshot.peak_memory_mib();
            table.row("peak memory, MiB", vec![memory], 1, Target::AtMost(48.0));
        }
        if let Some(takeover) = &self.takeover {
            add_takeover(&mut table, takeover);
        }
        table
    }

    fn add_drains(&self, table: &mut Table) {
        let each = |value: fn(&Drain) -> f64| self.drains.iter().map(value).collect::<Vec<f64>>();
        table.heading(format!("drain a backlog of {} rows, median of {}", self.rows, self.repeat));
        let sizes = each(|drain| drain.rows_per_transaction as f64);
        table.row("rows per transaction", sizes, 0, Target::None);
        let yardstick = each(|drain| drain.rate(|round| round.recvlogical_seconds));
        table.row("pg_recvlogical to a file, events/s", yardstick, 0, Target::None);
        table.row("  the same, binary values", each(Drain::binary_rate), 0, Target::None);
        let relay = each(|drain| drain.rate(|round| round.relay.seconds));
        table.row("postrider to Kafka, events/s", relay, 0, Target::None);
        let target = Target::AtLeast(1.0);
        table.row("ratio to pg_recvlogical", each(Drain::ratio), 2, target);
        let cpu = each(Drain::cpu_micros_per_event);
        table.row("CPU per event, µs", cpu, 1, Target::None);
        let memory = each(|drain| drain.peak_memory_bytes() as f64 / 1024.0 / 1024.0);
        table.row("peak memory, MiB", memory, 1, Target::AtMost(48.0));
    }

    fn add_messages(&self, table: &mut Table) {
        let each = |value: fn(&Messages) -> f64| self.messages.iter().map(value).collect();
        let (rows, repeat) = (self.rows, self.repeat);
        table
            .heading(format!("the same {rows} events as rows and as messages, median of {repeat}"));
        let sizes = each(|it| it.events_per_transaction as f64);
        table.row("events per transaction", sizes, 0, Target::None);
        let rows = each(|it| it.rate(|round| round.rows.seconds));
        table.row("rows to Kafka, events/s", rows, 0, Target::None);
        let batches = each(|it| it.rate(|round| round.batches.seconds));
        table.row("messages by emit_batch to Kafka, events/s", batches, 0, Target::None);
        let ratio = each(|it| it.ratio(|round| &round.batches));
        table.row("  ratio to rows", ratio, 2, Target::AtLeast(2.0));
        let messages = each(|it| it.rate(|round| round.messages.seconds));
        table.row("messages by emit to Kafka, events/s", messages, 0, Target::None);
        let ratio = each(|it| it.ratio(|round| &round.messages));
        table.row("  ratio to rows", ratio, 2, Target::None);
        let yardstick = each(|it| it.rate(|round| round.recvlogical_seconds));
        table.row("pg_recvlogical of emit_batch, events/s", yardstick, 0, Target::None);
        let ratio = each(Messages::ratio_to_recvlogical);
        table.row("emit_batch to pg_recvlogical", ratio, 2, Target::None);
        let cpu = each(|it| it.cpu_micros_per_event(|round| &round.rows));
        table.row("rows: CPU per event, µs", cpu, 1, Target::None);
        let cpu = each(|it| it.cpu_micros_per_event(|round| &round.batches));
        table.row("emit_batch: CPU per event, µs", cpu, 1, Target::None);
    }

    /// Writes the JSON and returns its path.
    pub(crate) fn save(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-results");
        std::fs::create_dir_all(&folder).expect("cannot create bench-results");
        let path = folder.join(format!("{}.json", self.begun_at.replace(':', "")));
        let json = serde_json::to_string_pretty(self).expect("a report is always JSON");
        std::fs::write(&path, json).expect("cannot write the results");
        path
    }
}

fn add_duplicates(table: &mut Table, duplicates: &Duplicates) {
    let counts = |rounds: &[usize]| rounds.iter().map(|&count| count as f64).collect();
    table.heading("SIGKILL while draining 200,000 rows, three times".to_owned());
    table.row("duplicates", counts(&duplicates.killed), 0, Target::AtMost(2_500.0));
    table.heading("in the middle of one transaction of 300,000 rows, three times each".to_owned());
    let killed = counts(&duplicates.killed_inside);
    table.row("duplicates after SIGKILL", killed, 0, Target::AtMost(2_500.0));
    let stopped = counts(&duplicates.stopped_inside);
    table.row("duplicates after a clean stop", stopped, 0, Target::AtMost(100.0));
}

fn add_latency(table: &mut Table, latency: &Latency) {
    table.heading(format!(
        "latency of {} events, one per transaction, synchronous_commit on,\n\
         from just before COMMIT is sent until an independent consumer has the record",
        latency.events
    ));
    table.row("events/s", vec![latency.events_per_second], 0, Target::None);
    table.row("p50, ms", vec![latency.p50_ms], 1, Target::AtMost(5.0));
    table.row("p90, ms", vec![latency.p90_ms], 1, Target::None);
    table.row("p99, ms", vec![latency.p99_ms], 1, Target::AtMost(30.0));
    table.row("max, ms", vec![latency.max_ms], 1, Target::None);
}

fn add_parking(table: &mut Table, parking: &Parking) {
    let mut compare = |heading: &str, comparison: &Comparison, target: f64| {
        table.heading(heading.to_owned());
        table.row("without, events/s", vec![comparison.clean_rate()], 0, Target::None);
        table.row("with, events/s", vec![comparison.troubled_rate()], 0, Target::None);
        table.row("ratio", vec![comparison.ratio()], 2, Target::AtLeast(target));
    };
    compare(
        "ten topics, with and without 1 % that can't be sent: the others",
        &parking.rejected,
        0.8,
    );
    compare(
        "ten topics, with and without 1 % that the broker refuses, all on one topic: the other nine",
        &parking.refused,
        0.5,
    );
    if let Some(replay) = &parking.replay {
        table.heading("replay of 100,000 dead events".to_owned());
        table.row("events/s", vec![replay.rate()], 0, Target::AtLeast(20_000.0));
    }
}

fn add_enqueue(table: &mut Table, enqueue: &Enqueue) {
    table.heading("writing events, one per transaction".to_owned());
    table.row("INSERT, events/s", vec![enqueue.bare_single], 0, Target::None);
    table.row("enqueue, events/s", vec![enqueue.single], 0, Target::None);
    let ratio = enqueue.single / enqueue.bare_single;
    table.row("ratio", vec![ratio], 2, Target::None);
    table.heading("writing events, 1,000 per transaction".to_owned());
    table.row("INSERT … VALUES, events/s", vec![enqueue.bare_batch], 0, Target::None);
    table.row("INSERT … unnest RETURNING id, events/s", vec![enqueue.bare_arrays], 0, Target::None);
    table.row("enqueue_batch, events/s", vec![enqueue.batch], 0, Target::None);
    table.row("ratio to VALUES", vec![enqueue.batch_to_bare], 2, Target::AtLeast(0.9));
    table.row("ratio to unnest", vec![enqueue.batch_to_arrays], 2, Target::AtLeast(0.9));
    table.row("ratio to enqueue", vec![enqueue.batch_to_single], 1, Target::AtLeast(5.0));
}

fn add_cleaner(table: &mut Table, cleaning: &Cleaning) {
    table.heading(format!("cleaning {} rows, while 1000 events/s are published", cleaning.rows));
    table.row("rows deleted/s", vec![cleaning.rate()], 0, Target::AtLeast(50_000.0));
    let p50 = vec![cleaning.without.p50_ms, cleaning.with.p50_ms];
    table.row("p50 without and with it, ms", p50, 1, Target::None);
    let p99 = vec![cleaning.without.p99_ms, cleaning.with.p99_ms];
    table.row("p99 without and with it, ms", p99, 1, Target::None);
    table.row("ratio of p99", vec![cleaning.ratio()], 2, Target::AtMost(1.5));
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

fn add_takeover(table: &mut Table, takeover: &Takeover) {
    table.heading(
        "a standby takes over, three times: from the end of the other instance\n\
         until an event that was written after it is consumed"
            .to_owned(),
    );
    table.row("SIGKILL, ms", takeover.killed.clone(), 0, Target::None);
    table.row("SIGTERM, ms", takeover.stopped.clone(), 0, Target::None);
    table.row("network loss, ms", takeover.unplugged.clone(), 0, Target::None);
}
