//! How fast old rows are deleted, and what that costs the events that are published meanwhile.

use std::thread::scope;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::backlog::{Backlog, Kind};
use crate::latency::{self, Latency};
use crate::running::{LOOK_EVERY, WITHIN, stop, sum, wait_published};
use crate::servers::Servers;
use crate::{PARTITION_COUNT, tell};
use testkit::relay::Relay;

const ROWS_PER_TRANSACTION: usize = 10;
const MEASURE: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_secs(30);

#[derive(Serialize)]
pub(crate) struct Cleaning {
    pub(crate) rows: usize,
    /// From the first deleted row to the last.
    seconds: f64,
    pub(crate) without: Latency,
    pub(crate) with: Latency,
}

impl Cleaning {
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.seconds
    }

    pub(crate) fn ratio(&self) -> f64 {
        self.with.p99_ms / self.without.p99_ms
    }
}

pub(crate) fn measure(servers: &Servers, rows: usize) -> Cleaning {
    tell(format!("publishing {rows} rows, to clean them"));
    let mut backlog = Backlog::write(servers, Kind::Rows, rows, ROWS_PER_TRANSACTION, &[]);
    let fixture = &mut backlog.fixture;
    fixture.set("POSTRIDER_CLEANER_ENABLED", "false");
    wait_published(fixture.start_relay(), rows);
    tell("latency without the cleaner");
    let topic = fixture.create_topic("without", PARTITION_COUNT, &[]);
    let without = latency::of_running(fixture, &topic, MEASURE);
    stop(fixture.relay());

    fixture.set("POSTRIDER_CLEANER_ENABLED", "true");
    fixture.set("POSTRIDER_CLEANER_RETENTION", "1s");
    fixture.set("POSTRIDER_CLEANER_INTERVAL", "1s");
    fixture.set("POSTRIDER_LOG", "info,postrider::cleaner=debug");
    tell("latency with it");
    let topic = fixture.create_topic("with", PARTITION_COUNT, &[]);
    let relay = {
        fixture.start_relay().wait_ready(SOON);
        fixture.take_relay()
    };
    let (with, seconds) = scope(|scope| {
        let watching = scope.spawn(|| watch(&relay, rows));
        let with = latency::of_running(fixture, &topic, MEASURE);
        (with, watching.join().unwrap())
    });
    if std::env::var("BENCH_LOG").is_ok() {
        eprintln!("{}", relay.log_tail(100));
    }
    let cleaning = Cleaning { rows, seconds, without, with };
    tell(format!("  {:.0} rows/s, p99 {:.2} times", cleaning.rate(), cleaning.ratio()));
    cleaning
}

/// How long it takes to delete this many rows.
fn watch(relay: &Relay, rows: usize) -> f64 {
    let started = Instant::now();
    let mut begun = None;
    loop {
        let cleaned =
            relay.http_get("/metrics").map_or(0, |(_, text)| sum(&text, "outbox_cleaned_total"));
        if cleaned > 0 {
            begun.get_or_insert_with(Instant::now);
        }
        if let Some(begun) = begun.filter(|_| cleaned >= rows) {
            return begun.elapsed().as_secs_f64();
        }
        assert!(started.elapsed() < WITHIN, "only {cleaned} of {rows} rows were cleaned");
        std::thread::sleep(LOOK_EVERY);
    }
}
