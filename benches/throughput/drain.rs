//! How fast a backlog is drained: the relay into Kafka against pg_recvlogical into a file.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::backlog::{Backlog, Kind};
use crate::options::Options;
use crate::recvlogical::{self, Values};
use crate::report::median;
use crate::running::{stop, wait_published};
use crate::servers::Servers;
use crate::tell;

#[derive(Serialize)]
pub(crate) struct Drain {
    pub(crate) rows_per_transaction: usize,
    pub(crate) rows: usize,
    pub(crate) rounds: Vec<Round>,
    /// pg_recvlogical with binary values, once, for comparison.
    pub(crate) recvlogical_binary_seconds: f64,
}

/// Both contestants, one directly after the other.
#[derive(Serialize)]
pub(crate) struct Round {
    pub(crate) recvlogical_seconds: f64,
    pub(crate) relay: RelayRun,
}

#[derive(Serialize)]
pub(crate) struct RelayRun {
    /// From the start of the process until the last event was acknowledged.
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_memory_bytes: u64,
}

impl Drain {
    /// Events per second of the median run.
    pub(crate) fn rate(&self, seconds: impl Fn(&Round) -> f64) -> f64 {
        self.rows as f64 / self.median(seconds)
    }

    pub(crate) fn binary_rate(&self) -> f64 {
        self.rows as f64 / self.recvlogical_binary_seconds
    }

    /// The median of the rounds' ratios: runs of one round meet the same state of the machine.
    pub(crate) fn ratio(&self) -> f64 {
        self.median(|round| round.recvlogical_seconds / round.relay.seconds)
    }

    pub(crate) fn cpu_micros_per_event(&self) -> f64 {
        self.median(|round| round.relay.cpu_seconds) * 1e6 / self.rows as f64
    }

    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        let peaks = self.rounds.iter().map(|round| round.relay.peak_memory_bytes);
        peaks.max().unwrap_or(0)
    }

    fn median(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(value))
    }
}

pub(crate) fn measure(servers: &Servers, options: &Options, rows_per_transaction: usize) -> Drain {
    let slots = Slots::new(options.repeat);
    tell(format!("writing {} rows, {rows_per_transaction} per transaction", options.rows));
    let mut backlog =
        Backlog::write(servers, Kind::Rows, options.rows, rows_per_transaction, &slots.all());
    let rounds: Vec<Round> =
        (0..options.repeat).map(|round| play(servers, &mut backlog, &slots, round)).collect();
    let binary = recvlogical::drain(servers, &backlog, &slots.binary, Values::Binary);
    let published: i64 = backlog.fixture.consumer().end_offsets(&backlog.topic).iter().sum();
    let expected = options.rows * options.repeat;
    assert_eq!(usize::try_from(published), Ok(expected), "records in the topic");
    Drain {
        rows_per_transaction,
        rows: options.rows,
        rounds,
        recvlogical_binary_seconds: binary.as_secs_f64(),
    }
}

fn play(servers: &Servers, backlog: &mut Backlog, slots: &Slots, round: usize) -> Round {
    let (yardstick_slot, relay_slot) = slots.of_round(round);
    let yardstick = |backlog: &Backlog| {
        recvlogical::drain(servers, backlog, &yardstick_slot, Values::Text).as_secs_f64()
    };
    // The order alternates, because the second run finds warmer caches.
    let (recvlogical_seconds, relay) = if round.is_multiple_of(2) {
        (yardstick(backlog), run_relay(backlog, &relay_slot))
    } else {
        let relay = run_relay(backlog, &relay_slot);
        (yardstick(backlog), relay)
    };
    tell(format!("  pg_recvlogical {recvlogical_seconds:.2} s, relay {:.2} s", relay.seconds));
    Round { recvlogical_seconds, relay }
}

pub(crate) fn run_relay(backlog: &mut Backlog, slot: &str) -> RelayRun {
    backlog.fixture.set("POSTRIDER_SLOT", slot);
    let begun = Instant::now();
    let relay = backlog.fixture.start_relay();
    wait_published(relay, backlog.rows);
    let took: Duration = begun.elapsed();
    let run = RelayRun {
        seconds: took.as_secs_f64(),
        cpu_seconds: relay.cpu_time().as_secs_f64(),
        peak_memory_bytes: relay.peak_rss_bytes(),
    };
    stop(relay);
    run
}

/// A slot for each run: a slot can be drained once.
struct Slots {
    repeat: usize,
    binary: String,
}

impl Slots {
    fn new(repeat: usize) -> Slots {
        Slots { repeat, binary: "bench_recvlogical_binary".to_owned() }
    }

    /// pg_recvlogical's and the relay's.
    fn of_round(&self, round: usize) -> (String, String) {
        (format!("bench_recvlogical_{round}"), format!("bench_relay_{round}"))
    }

    fn all(&self) -> Vec<String> {
        let rounds = (0..self.repeat).map(|round| self.of_round(round));
        let mut all: Vec<String> = rounds.flat_map(|(one, other)| [one, other]).collect();
        all.push(self.binary.clone());
        all
    }
}
