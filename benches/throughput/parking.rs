//! What events that can't be published cost those that can, and how fast dead ones are replayed.

mod mixed;
mod replay;
mod run;

use serde::Serialize;

use crate::options::Options;
use crate::report::median;
use crate::servers::Servers;
use crate::tell;
use mixed::{Kind, Mixed};
use replay::Replay;
use run::Run;

#[derive(Serialize)]
pub(crate) struct Parking {
    /// One event of a hundred can't be sent, which is known beforehand.
    pub(crate) rejected: Comparison,
    /// One event of a hundred is rejected by the broker, all of them on one of ten topics.
    pub(crate) refused: Comparison,
    pub(crate) replay: Option<Replay>,
}

/// The same kind of backlog without and with trouble, one directly after the other.
#[derive(Serialize)]
pub(crate) struct Comparison {
    clean_events: usize,
    /// Events of the backlog with trouble that are not affected by it.
    troubled_events: usize,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    clean: Run,
    troubled: Run,
}

impl Comparison {
    pub(crate) fn clean_rate(&self) -> f64 {
        median(
            self.rounds
                .iter()
                .map(|round| self.clean_events as f64 / round.clean.published_seconds),
        )
    }

    pub(crate) fn troubled_rate(&self) -> f64 {
        let rate = |round: &Round| self.troubled_events as f64 / round.troubled.published_seconds;
        median(self.rounds.iter().map(rate))
    }

    /// The median of the rounds' ratios: runs of one round meet the same state of the machine.
    pub(crate) fn ratio(&self) -> f64 {
        let share = self.troubled_events as f64 / self.clean_events as f64;
        let ratio = |round: &Round| {
            share * round.clean.published_seconds / round.troubled.published_seconds
        };
        median(self.rounds.iter().map(ratio))
    }
}

pub(crate) fn measure(servers: &Servers, options: &Options) -> Parking {
    let rows = options.rows / 2;
    Parking {
        rejected: compare(servers, rows, options.repeat, Kind::Plain, Kind::Rejected),
        refused: compare(servers, rows, options.repeat, Kind::Taken, Kind::Refused),
        replay: replay::measure(servers),
    }
}

fn compare(
    servers: &Servers,
    rows: usize,
    repeat: usize,
    clean: Kind,
    troubled: Kind,
) -> Comparison {
    tell(format!("writing two backlogs of {rows} rows for ten topics, {clean:?} and {troubled:?}"));
    let mut clean = Mixed::write(servers, clean, rows, repeat + 1);
    let mut troubled = Mixed::write(servers, troubled, rows, repeat);
    // Compiles the broker's hot code before anything is measured.
    run::drain(&mut clean, repeat);
    let play = |number: usize| {
        // The order alternates, because the second run finds warmer caches.
        let (clean, troubled) = if number.is_multiple_of(2) {
            let clean = run::drain(&mut clean, number);
            (clean, run::drain(&mut troubled, number))
        } else {
            let troubled = run::drain(&mut troubled, number);
            (run::drain(&mut clean, number), troubled)
        };
        tell(format!("  clean {clean}, with trouble {troubled}"));
        Round { clean, troubled }
    };
    let rounds = (0..repeat).map(play).collect();
    Comparison {
        clean_events: clean.counted_events(),
        troubled_events: troubled.counted_events(),
        rounds,
    }
}
