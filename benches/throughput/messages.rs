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

/// All contestants, one right after the other.
#[derive(Serialize)]
pub(crate) struct Round {
    pub(crate) rows: RelayRun,
    pub(crate) messages: RelayRun,
    /// Of the messages.
    pub(crate) recvlogical_seconds: f64,
}

impl Messages {
    /// Events a second, of the median run.
    pub(crate) fn rate(&self, seconds: impl Fn(&Round) -> f64) -> f64 {
        self.events as f64 / median(self.rounds.iter().map(seconds))
    }

    /// The median of the rounds' ratios: neighbours in time share the machine's mood.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.rows.seconds / round.messages.seconds))
    }

    pub(crate) fn ratio_to_recvlogical(&self) -> f64 {
        let ratio = |round: &Round| round.recvlogical_seconds / round.messages.seconds;
        median(self.rounds.iter().map(ratio))
    }

    pub(crate) fn cpu_micros_per_event(&self, run: fn(&Round) -> &RelayRun) -> f64 {
        median(self.rounds.iter().map(|round| run(round).cpu_seconds)) * 1e6 / self.events as f64
    }
}

pub(crate) fn measure(servers: &Servers, options: &Options, size: usize) -> Messages {
    let events = options.rows;
    // Slots belong to the whole server, so their names are all different.
    let slots = |kind: &str| {
        let slot = |round| format!("bench_{kind}_{round}");
        (0..options.repeat).map(slot).collect::<Vec<String>>()
    };
    let (row_slots, message_slots) = (slots("rows"), slots("messages"));
    let yardstick_slots = slots("messages_recvlogical");
    tell(format!("writing {events} rows and {events} messages, {size} per transaction"));
    let mut rows = Backlog::write(servers, Kind::Rows, events, size, &row_slots);
    let all = [message_slots.as_slice(), &yardstick_slots].concat();
    let mut messages = Backlog::write(servers, Kind::Messages, events, size, &all);
    let mut rounds = Vec::with_capacity(options.repeat);
    let slots = row_slots.iter().zip(&message_slots).zip(&yardstick_slots);
    for (round, ((row_slot, message_slot), yardstick_slot)) in slots.enumerate() {
        // Who comes first changes: the second finds warmer caches.
        let (rows, messages_run) = if round.is_multiple_of(2) {
            let rows = run_relay(&mut rows, row_slot);
            (rows, run_relay(&mut messages, message_slot))
        } else {
            let messages = run_relay(&mut messages, message_slot);
            (run_relay(&mut rows, row_slot), messages)
        };
        let yardstick = recvlogical::drain(servers, &messages, yardstick_slot, Values::Text);
        let recvlogical_seconds = yardstick.as_secs_f64();
        tell(format!(
            "  rows {:.2} s, messages {:.2} s, pg_recvlogical {recvlogical_seconds:.2} s",
            rows.seconds, messages_run.seconds
        ));
        rounds.push(Round { rows, messages: messages_run, recvlogical_seconds });
    }
    let published: i64 = messages.fixture.consumer().end_offsets(&messages.topic).iter().sum();
    assert_eq!(usize::try_from(published), Ok(events * options.repeat), "records in the topic");
    Messages { events_per_transaction: size, events, rounds }
}
