//! Publishing rows that are already in the tables (ADR 20): before the first slot of an outbox, and
//! after a slot was lost.
//!
//! A slot is created together with a snapshot: rows that were committed before are read from the
//! tables under the snapshot, and later ones are in the slot. The rows take the same path as all
//! others, in an order that is chosen for each table ([`order`], ADR 22). Once the last of them is
//! acknowledged, the slot's progress is stored and the relay streams. Until then a job is stored.
//! An instance that finds one, for example after a kill, keeps the slot and reads the tables under
//! another snapshot, because a snapshot ends with its session. Rows that were published before are
//! not repeated: rows up to the value that was reached are left out, unless they were committed
//! since. Those are published twice, from the table and from the slot.

mod lease;
pub(crate) mod order;
mod parked;
mod publish;
mod reader;
pub(crate) mod recover;
pub(crate) mod rows;
pub(crate) mod run;
mod slot;
pub(crate) mod store;
pub(crate) mod table;

use tokio_postgres::{Client, Error};

use crate::config::{PostgresConfig, Snapshot};
use crate::schema::has_backfill;

/// Why rows are published from the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They are older than the slot.
    Snapshot,
    /// The slot was lost, and they may be missing.
    Recover,
}

impl Kind {
    /// As it is stored.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Snapshot => "snapshot",
            Kind::Recover => "recover",
        }
    }
}

/// Rows of the tables that are to be published before the slot is read.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub kind: Kind,
    /// Transactions before this one had ended when the first attempt began to read.
    pub seen_before: Option<String>,
    /// The slot is kept: it may be the only place of events that nobody has read yet, which are
    /// events without a table and rows that were deleted.
    pub keeps_slot: bool,
    /// The publication, as it was just before the slot was created for this job, or was about to
    /// be.
    pub made_for: Option<String>,
    pub tables: Vec<JobTable>,
}

/// The rows of one table that are to be published.
#[derive(Debug, Clone, Default)]
pub struct JobTable {
    /// The table.
    pub outbox: u32,
    /// Only rows of this transaction and later ones.
    pub since: Option<String>,
    /// The order of the rows, as [`table::Table::order_name`] has it.
    pub sorted_by: Option<String>,
    /// Where the rows are, as [`table::Table::leaves`] has it.
    pub leaves: Option<String>,
    /// Rows up to this value of that order are published, of those that the first attempt saw.
    pub reached: Option<i64>,
    /// How many rows are published so far.
    pub rows: i64,
    /// All rows that the first attempt saw are published.
    pub is_done: bool,
}

impl JobTable {
    /// Resumes after what an earlier attempt reached, if that still means the same; else starts at
    /// the first row.
    pub fn resume(&mut self, sorted_by: String, leaves: String) {
        let (sorted_by, leaves) = (Some(sorted_by), Some(leaves));
        // Rows of a partition that was attached since were not there before, however old they are.
        let is_same_place = self.leaves == leaves;
        self.is_done &= is_same_place;
        if !is_same_place || self.sorted_by != sorted_by {
            self.reached = None;
        }
        self.sorted_by = sorted_by;
        self.leaves = leaves;
    }
}

/// Whether rows of the tables are to be published before the slot can be read. With
/// `postgres.snapshot = "initial"`, stores a job for that if there is neither a slot nor progress.
pub(crate) async fn is_due(client: &Client, config: &PostgresConfig) -> Result<bool, Error> {
    if has_backfill(client, &config.slot).await? {
        return Ok(true);
    }
    match config.snapshot {
        Snapshot::Never => Ok(false),
        Snapshot::Initial => store::begin_snapshot(client, &config.slot).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_try_counts_only_if_it_read_the_same_rows_in_the_same_order() {
        let check = |sorted_by: &str, leaves: &str, expect: (Option<i64>, bool)| {
            let mut table = JobTable {
                sorted_by: Some("id \"id\"".to_owned()),
                leaves: Some("1".to_owned()),
                reached: Some(5),
                is_done: true,
                ..JobTable::default()
            };
            table.resume(sorted_by.to_owned(), leaves.to_owned());
            assert_eq!((table.reached, table.is_done), expect);
        };
        check("id \"id\"", "1", (Some(5), true));
        check("transaction", "1", (None, true));
        check("id \"id\"", "1 2", (None, false));
        // Stored by an earlier version.
        let mut table = JobTable { reached: Some(5), is_done: true, ..JobTable::default() };
        table.resume("id \"id\"".to_owned(), "1".to_owned());
        assert_eq!((table.reached, table.is_done), (None, false));
    }
}
