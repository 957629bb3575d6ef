//! Publishing rows that are in the tables already (ADR 20): before the first slot of an outbox, and
//! after a slot was lost.
//!
//! A slot is made together with a snapshot: what was committed before is read from the tables under
//! the snapshot, what comes after is in the slot. The rows go the way of all rows, in the order of
//! their ids; once the last of them is acknowledged, the slot's progress is stored and the relay
//! streams. Until then a job is stored. Whoever finds one, after a kill say, drops the slot and begins
//! anew with another one, for a snapshot ends with its session; but what was published before is not
//! repeated: rows up to the id reached are left out, unless they were committed since.

pub mod rows;
mod sql;
pub mod store;
pub mod table;

use tokio_postgres::{Client, Error};

use crate::config::{PostgresConfig, Snapshot};

/// Why rows are published from the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They were there before the slot.
    Snapshot,
    /// The slot was lost, and they may be missing.
    Recover,
}

impl Kind {
    /// As it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Snapshot => "snapshot",
            Kind::Recover => "recover",
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Job {
    /// Why.
    pub kind: Kind,
    /// Transactions before this one were over when the first try began to read.
    pub seen_before: Option<String>,
    /// Table by table.
    pub tables: Vec<JobTable>,
}

/// What is to be done of a table.
#[derive(Debug, Clone, Default)]
pub struct JobTable {
    /// The table.
    pub outbox: u32,
    /// Only rows of this transaction and later ones.
    pub since: Option<String>,
    /// Published up to this id, as far as the first try saw.
    pub last_id: Option<i64>,
    /// Published so far.
    pub rows: i64,
    /// All that the first try saw is published.
    pub is_done: bool,
}

/// Whether rows of the tables are to be published before the slot can be read. An outbox that is to
/// begin with its rows, and has neither slot nor progress, gets a job for it.
pub(crate) async fn is_due(client: &Client, config: &PostgresConfig) -> Result<bool, Error> {
    if store::exists(client, &config.slot).await? {
        return Ok(true);
    }
    match config.snapshot {
        Snapshot::Never => Ok(false),
        Snapshot::Initial => store::begin_snapshot(client, &config.slot).await,
    }
}
