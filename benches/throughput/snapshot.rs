//! How fast rows from before the slot are published.

use serde::Serialize;

use crate::backlog::{Backlog, Kind};
use crate::drain::{RelayRun, run_relay};
use crate::servers::Servers;
use crate::tell;

const ROWS_PER_TRANSACTION: usize = 1000;
/// A slot that does not exist yet.
const SLOT: &str = "bench_snapshot";

#[derive(Serialize)]
pub(crate) struct Snapshot {
    pub(crate) rows: usize,
    /// From the start of the process to the last acknowledgement.
    run: RelayRun,
}

impl Snapshot {
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.run.seconds
    }

    pub(crate) fn peak_memory_mib(&self) -> f64 {
        self.run.peak_memory_bytes as f64 / 1024.0 / 1024.0
    }
}

pub(crate) fn measure(servers: &Servers, rows: usize) -> Snapshot {
    tell(format!("writing {rows} rows, to publish them from the table"));
    let mut backlog = Backlog::write(servers, Kind::Rows, rows, ROWS_PER_TRANSACTION, &[]);
    backlog.fixture.set("POSTRIDER_POSTGRES_SNAPSHOT", "initial");
    let run = run_relay(&mut backlog, SLOT);
    let snapshot = Snapshot { rows, run };
    tell(format!("  {:.0} rows/s", snapshot.rate()));
    let published: i64 = backlog.fixture.consumer().end_offsets(&backlog.topic).iter().sum();
    assert_eq!(usize::try_from(published), Ok(rows), "records in the topic");
    snapshot
}
