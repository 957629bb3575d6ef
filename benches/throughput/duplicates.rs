//! How many events come twice when the relay is killed at full speed.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::backlog::{Backlog, Kind};
use crate::running::{record_id, stop, wait_published};
use crate::servers::Servers;
use crate::tell;

const ROWS: usize = 200_000;
const ROWS_PER_TRANSACTION: usize = 10;
const ROUNDS: usize = 3;
const WITHIN: Duration = Duration::from_secs(120);

/// The duplicates of each round.
pub(crate) fn measure(servers: &Servers) -> Vec<usize> {
    (0..ROUNDS).map(|_| round(servers)).collect()
}

fn round(servers: &Servers) -> usize {
    tell(format!("draining {ROWS} rows, with a SIGKILL on the way"));
    let mut backlog = Backlog::write(servers, Kind::Rows, ROWS, ROWS_PER_TRANSACTION, &[]);
    let fixture = &mut backlog.fixture;
    wait_published(fixture.start_relay(), ROWS / 2);
    fixture.relay().kill9();
    fixture.start_relay();

    let mut ids = HashSet::new();
    let complete = fixture.consumer().for_each(WITHIN, |message| {
        ids.insert(record_id(message));
        if ids.len() < ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(complete, "only {} of {ROWS} events arrived", ids.len());
    // What it still has in hand is written before it ends.
    stop(fixture.relay());
    let records: i64 = fixture.consumer().end_offsets(&backlog.topic).iter().sum();
    let duplicates = usize::try_from(records).unwrap() - ROWS;
    tell(format!("  {duplicates} duplicates"));
    duplicates
}
