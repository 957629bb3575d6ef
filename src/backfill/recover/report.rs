//! What a recovery has found and done, for programs and for people.

use postrider_core::parking::Status;
use std::fmt;

use crate::backfill::Kind;
use crate::backfill::order::Order;
use crate::progress::Gap;

/// What was found, and done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recovery {
    /// What is wrong with the slot, if anything.
    pub gap: Option<Gap>,
    /// An earlier job that was interrupted, and is continued.
    pub interrupted_job: Option<Kind>,
    /// What may be missing, table by table.
    pub tables: Vec<PossiblyMissing>,
    /// The slot is kept, and `run` reads what else it has.
    pub keeps_slot: bool,
    /// What happens to events without a table, if `postgres.messages` is set.
    pub messages: Option<Unread>,
    /// How many rows were published.
    pub published: Option<u64>,
    /// It was interrupted; `run` continues it.
    pub is_interrupted: bool,
}

/// What happens to events without a table that were not published, which are only in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The slot is kept, and `run` reads them.
    Kept,
    /// They are lost with the slot.
    Lost,
}

impl Unread {
    pub(super) fn with_slot(keeps_slot: bool) -> Self {
        if keeps_slot { Unread::Kept } else { Unread::Lost }
    }
}

/// The rows of a table that may be missing.
#[derive(Debug, Clone)]
pub(crate) struct PossiblyMissing {
    pub table: String,
    /// How many rows.
    pub rows: u64,
    /// Of this transaction and later ones; none: all rows.
    pub since: Option<String>,
    /// The order in which they are published.
    pub order: Order,
    /// Rows that are left out because their events are in the side table, by status.
    pub left_out: Vec<(Status, u64)>,
}

impl PossiblyMissing {
    /// In which order rows are published, and which ones are left out.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PossiblyMissing { order, left_out, .. } = self;
        writeln!(f, "            they are published {order}, which is not always commit order")?;
        for (status, rows) in left_out {
            let why = match status {
                Status::Discarded => "they were discarded with `postrider dead discard`",
                Status::Dead => "`postrider replay` publishes them",
                Status::Pending | Status::Processing | Status::Delivered => {
                    "the relay publishes them from postrider.undelivered"
                }
            };
            writeln!(
                f,
                "{rows:>10}  more are left out, their events are {}: {why}",
                status.label()
            )?;
        }
        Ok(())
    }
}

impl Recovery {
    /// What happens to events without a table if the slot is kept.
    fn explain_kept(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the slot stays, because it may have events without a table (postrider.emit) that \
             were not published; `postrider run` reads them"
        )?;
        match &self.gap {
            Some(Gap::Ahead { found, stored, .. }) => writeln!(
                f,
                "those that were written between {stored} and {found} and not published are lost, \
                 because the slot was moved past them; their number is unknown"
            ),
            _ => Ok(()),
        }
    }
}

/// For people.
impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.gap, self.interrupted_job) {
            (Some(gap), _) => writeln!(f, "{gap}")?,
            (None, Some(Kind::Recover)) => {
                writeln!(f, "an earlier recovery was interrupted, and has to be continued")?;
            }
            (None, Some(Kind::Snapshot)) => writeln!(
                f,
                "an earlier snapshot was interrupted, and has to be continued (`postrider run` \
                 does that too)"
            )?,
            (None, None) => return write!(f, "nothing to recover: the slot has what it should"),
        }
        for doubtful in &self.tables {
            let PossiblyMissing { table, rows, since, .. } = doubtful;
            let noun = if *rows == 1 { "row" } else { "rows" };
            match since {
                Some(since) => writeln!(
                    f,
                    "{rows:>10}  {noun} of {table} may be missing: those of transaction {since} and \
                     later ones"
                )?,
                None => writeln!(
                    f,
                    "{rows:>10}  {noun} of {table} may be missing: all of them, because it is \
                     unknown how far this slot had been read"
                )?,
            }
            doubtful.explain(f)?;
        }
        match self.messages {
            None if self.keeps_slot => writeln!(
                f,
                "the slot stays, because it may have rows that were deleted since; `postrider \
                 run` reads it from its position"
            )?,
            None => {}
            Some(Unread::Kept) => self.explain_kept(f)?,
            Some(Unread::Lost) => writeln!(
                f,
                "events without a table (postrider.emit) that were not published are lost with the \
                 slot; their number is unknown"
            )?,
        }
        write!(
            f,
            "rows that are already in Kafka are published again, with the same idempotency keys"
        )
    }
}
