//! What a recovery has found and done, for programs and for people.

use std::fmt;

use crate::backfill::Kind;
use crate::backfill::order::Order;
use crate::progress::Gap;

/// What was found, and done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recovery {
    /// What is wrong; none: nothing is.
    pub gap: Option<Gap>,
    /// This was begun before and broken off, and is gone on with.
    pub goes_on: Option<Kind>,
    /// What may be missing, table by table.
    pub tables: Vec<Doubtful>,
    /// The slot stays, and `run` reads what else it has.
    pub keeps_slot: bool,
    /// What becomes of events without a table, where they are published.
    pub messages: Option<Unread>,
    /// How many rows were published, and where the new slot begins.
    pub published: Option<u64>,
    /// It was broken off; `run` goes on with it.
    pub is_interrupted: bool,
}

/// What becomes of events without a table that were not published: they are only in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The slot stays, and `run` reads them.
    Kept,
    /// They are lost with the slot.
    Lost,
}

/// What may be missing of a table.
#[derive(Debug, Clone)]
pub(crate) struct Doubtful {
    /// Its name.
    pub table: String,
    /// How many rows.
    pub rows: u64,
    /// Of this transaction and later ones; none: all rows.
    pub since: Option<String>,
    /// In which order they come.
    pub order: Order,
    /// Rows that are left out because their events are in the side table, by status.
    pub left_out: Vec<(String, u64)>,
}

impl Doubtful {
    /// In which order rows come, and which do not.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doubtful { order, left_out, .. } = self;
        writeln!(f, "            they are published {order}, which is not always commit order")?;
        for (status, rows) in left_out {
            let why = match status.as_str() {
                "discarded" => "somebody gave them up with `postrider dead discard`",
                "dead" => "`postrider replay` publishes them",
                _ => "the relay publishes them from postrider.undelivered",
            };
            writeln!(f, "{rows:>10}  more are left out, their events are {status}: {why}")?;
        }
        Ok(())
    }
}

impl Recovery {
    /// What becomes of events without a table if the slot stays.
    fn explain_kept(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the slot stays, because events without a table (postrider.emit) may be in it that were not \
             published; `postrider run` reads them"
        )?;
        match &self.gap {
            Some(Gap::Ahead { found, stored, .. }) => writeln!(
                f,
                "those that were written between {stored} and {found} and not published are lost: the \
                 slot was moved past them; nobody can tell how many"
            ),
            _ => Ok(()),
        }
    }
}

/// For people.
impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.gap, self.goes_on) {
            (Some(gap), _) => writeln!(f, "{gap}")?,
            (None, Some(Kind::Recover)) => {
                writeln!(f, "a recovery was begun before and broken off; going on")?;
            }
            (None, Some(Kind::Snapshot)) => writeln!(
                f,
                "a snapshot was begun before and broken off; going on (`postrider run` would, too)"
            )?,
            (None, None) => return write!(f, "nothing to recover: the slot has what it should"),
        }
        for doubtful in &self.tables {
            let Doubtful { table, rows, since, .. } = doubtful;
            match since {
                Some(since) => writeln!(
                    f,
                    "{rows:>10}  rows of {table} may be missing: those of transaction {since} and \
                     later ones"
                )?,
                None => writeln!(
                    f,
                    "{rows:>10}  rows of {table} may be missing: all of them, for nothing is known \
                     of how far this slot was"
                )?,
            }
            doubtful.explain(f)?;
        }
        match self.messages {
            None if self.keeps_slot => writeln!(
                f,
                "the slot stays, because it may have rows that were deleted since; `postrider run` \
                 reads it from where it stands"
            )?,
            None => {}
            Some(Unread::Kept) => self.explain_kept(f)?,
            Some(Unread::Lost) => writeln!(
                f,
                "events without a table (postrider.emit) that were not published are lost with the \
                 slot; nobody can tell how many"
            )?,
        }
        write!(f, "rows that are in Kafka already come again, with the same idempotency keys")
    }
}
