//! How fast events without a table are drained, against the same events as rows.

use serde::Serialize;

use crate::backlog::{Backlog, Kind};
use crate::drain::{RelayRun, run_relay};
use crate::options::Options;
use crate::recvlogical::{self, Values};
use crate::report::median;
use crate::servers::Servers;
use crate::tell;

/// Events per transaction of the backlogs.
pub(crate) const TRANSACTION_SIZES: [usize; 2] = [10, 1000];

#[derive(Serialize)]
pub(crate) struct Messages {
    pub(crate) events_per_transaction: usize,
    events: usize,
    rounds: Vec<Round>,
}

/// All contestants, one directly after the other.
#[derive(Serialize)]
pub(crate) struct Round {
    pub(crate) rows: RelayRun,
    /// Each transaction was written by one `emit_batch`.
    pub(crate) batches: RelayRun,
    /// Each event was written by an `emit`.
    pub(crate) messages: RelayRun,
    /// Of the batches.
    pub(crate) recvlogical_seconds: f64,
}

impl Messages {
    /// Events per second of the median run.
    pub(crate) fn rate(&self, seconds: impl Fn(&Round) -> f64) -> f64 {
        self.events as f64 / median(self.rounds.iter().map(seconds))
    }

    /// The median of the rounds' ratios to rows: runs of one round meet the same state of the
    /// machine.
    pub(crate) fn ratio(&self, run: fn(&Round) -> &RelayRun) -> f64 {
        median(self.rounds.iter().map(|round| round.rows.seconds / run(round).seconds))
    }

    pub(crate) fn ratio_to_recvlogical(&self) -> f64 {
        let ratio = |round: &Round| round.recvlogical_seconds / round.batches.seconds;
        median(self.rounds.iter().map(ratio))
    }

    pub(crate) fn cpu_micros_per_event(&self, run: fn(&Round) -> &RelayRun) -> f64 {
        median(self.rounds.iter().map(|round| run(round).cpu_seconds)) * 1e6 / self.events as f64
    }
}

pub(crate) fn measure(servers: &Servers, options: &Options, size: usize) -> Messages {
    let events = options.rows;
    // Slots belong to the whole server, so their names are all different.
    let slot = |kind: &str, round: usize| format!("bench_{kind}_{round}");
    let slots = |kind: &str| (0..options.repeat).map(|it| slot(kind, it)).collect::<Vec<String>>();
    tell(format!("writing {events} events as rows and as messages, {size} per transaction"));
    let write = |kind, slots: &[String]| Backlog::write(servers, kind, events, size, slots);
    let mut rows = write(Kind::Rows, &slots("rows"));
    let mut batches =
        write(Kind::Batches, &[slots("batches"), slots("batches_recvlogical")].concat());
    let mut messages = write(Kind::Messages, &slots("messages"));
    let mut rounds = Vec::with_capacity(options.repeat);
    for round in 0..options.repeat {
        let mut run_rows = || run_relay(&mut rows, &slot("rows", round));
        let mut run_batches = || run_relay(&mut batches, &slot("batches", round));
        // The order alternates, because the second run finds warmer caches.
        let (rows_run, batches_run) = if round.is_multiple_of(2) {
            let rows = run_rows();
            (rows, run_batches())
        } else {
            let batches = run_batches();
            (run_rows(), batches)
        };
        let messages_run = run_relay(&mut messages, &slot("messages", round));
        let yardstick_slot = slot("batches_recvlogical", round);
        let yardstick = recvlogical::drain(servers, &batches, &yardstick_slot, Values::Text);
        let recvlogical_seconds = yardstick.as_secs_f64();
        tell(format!(
            "  rows {:.2} s, batches {:.2} s, pg_recvlogical {recvlogical_seconds:.2} s, \
             single messages {:.2} s",
            rows_run.seconds, batches_run.seconds, messages_run.seconds
        ));
        let (rows, batches, messages) = (rows_run, batches_run, messages_run);
        rounds.push(Round { rows, batches, messages, recvlogical_seconds });
    }
    for backlog in [&batches, &messages] {
        let published: i64 = backlog.fixture.consumer().end_offsets(&backlog.topic).iter().sum();
        assert_eq!(usize::try_from(published), Ok(events * options.repeat), "records in the topic");
    }
    Messages { events_per_transaction: size, events, rounds }
}
