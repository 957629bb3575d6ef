//! How many events are published twice when the relay is killed at full speed, and when it is
//! killed or stopped inside one large transaction.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;

use crate::backlog::{Backlog, Kind};
use crate::running::{record_id, stop, wait_published};
use crate::servers::Servers;
use crate::tell;
use testkit::relay::Relay;

const ROWS: usize = 200_000;
const ROWS_PER_TRANSACTION: usize = 10;
/// The rows of one large transaction.
const LARGE_TRANSACTION: usize = 300_000;
const ROUNDS: usize = 3;
const WITHIN: Duration = Duration::from_secs(120);

/// The duplicates of each round.
#[derive(Serialize)]
pub(crate) struct Duplicates {
    pub(crate) killed: Vec<usize>,
    pub(crate) killed_inside: Vec<usize>,
    pub(crate) stopped_inside: Vec<usize>,
}

pub(crate) fn measure(servers: &Servers) -> Duplicates {
    let rounds = |rows, rows_per_transaction, end: fn(&mut Relay)| {
        (0..ROUNDS).map(|_| round(servers, rows, rows_per_transaction, end)).collect()
    };
    Duplicates {
        killed: rounds(ROWS, ROWS_PER_TRANSACTION, Relay::kill9),
        killed_inside: rounds(LARGE_TRANSACTION, LARGE_TRANSACTION, Relay::kill9),
        stopped_inside: rounds(LARGE_TRANSACTION, LARGE_TRANSACTION, stop),
    }
}

fn round(
    servers: &Servers,
    rows: usize,
    rows_per_transaction: usize,
    end: fn(&mut Relay),
) -> usize {
    tell(format!(
        "draining {rows} rows, {rows_per_transaction} per transaction, with an end on the way"
    ));
    let mut backlog = Backlog::write(servers, Kind::Rows, rows, rows_per_transaction, &[]);
    let fixture = &mut backlog.fixture;
    wait_published(fixture.start_relay(), rows / 2);
    end(fixture.relay());
    fixture.start_relay();

    let mut ids = HashSet::new();
    let complete = fixture.consumer().for_each(WITHIN, |message| {
        ids.insert(record_id(message));
        if ids.len() < rows { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(complete, "only {} of {rows} events arrived", ids.len());
    // What it has in flight is written before it ends.
    stop(fixture.relay());
    let records: i64 = fixture.consumer().end_offsets(&backlog.topic).iter().sum();
    let duplicates = usize::try_from(records).unwrap() - rows;
    tell(format!("  {duplicates} duplicates"));
    duplicates
}
