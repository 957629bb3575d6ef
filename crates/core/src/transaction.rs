//! Begin, rows, Commit → positions. No I/O.
//!
//! With protocol version 1 and no streaming only committed transactions arrive, one after the other
//! and never interleaved. So a row can be published as it comes, and this module's state does not
//! grow with the transaction. Within a session, only the ends of the commits must increase: the
//! start positions of interleaved transactions go back and forth (ADR 0003).

use crate::lsn::Lsn;
use crate::pgoutput::PgTime;

/// Where an event is in the log. Rows of one multi-insert, and events of one pack, share the LSN of
/// their change and are numbered. Together, LSN and number are the same whenever the transaction is
/// read, whatever tables are configured, because all events at one LSN come from one of them. They
/// increase from event to event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Where the commit record starts.
    pub commit_lsn: Lsn,
    /// Where the change itself is: the XLogData start of its frame. For a row that was read from
    /// its table, the number of the attempt that read it, which is below every position.
    pub change_lsn: Lsn,
    /// The number of the event among those at `change_lsn`, from 0.
    pub ordinal: u64,
    /// Its number among all events of the transaction, from 0. Which rows are events depends on the
    /// configured tables, so consumers can sort by this, but it does not identify an event.
    pub in_transaction: u64,
}

/// A stream that violates the protocol. Nothing that it contains may be confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// A transaction begins inside another.
    #[error("transaction {new} begins inside the transaction that commits at {open}")]
    NestedBegin {
        /// The commit position of the open transaction.
        open: Lsn,
        /// The commit position of the new one.
        new: Lsn,
    },
    /// A row outside of any transaction.
    #[error("a row arrived outside a transaction")]
    RowOutside,
    /// A commit without a beginning.
    #[error("a commit at {0} arrived without its Begin")]
    CommitOutside(Lsn),
    /// A commit that is not the one announced.
    #[error("a transaction that was announced to commit at {begun} commits at {committed}")]
    CommitMismatch {
        /// The position in Begin.
        begun: Lsn,
        /// The position in Commit.
        committed: Lsn,
    },
    /// A commit that ends before an earlier one.
    #[error("a commit that ends at {end} came after one that ended at {last}")]
    CommitWentBack {
        /// The end of the last commit.
        last: Lsn,
        /// The end of this one.
        end: Lsn,
    },
}

/// The transaction that is being read.
#[derive(Debug)]
pub struct Transactions {
    open: Option<Open>,
    last_end: Lsn,
}

#[derive(Debug)]
struct Open {
    commit_lsn: Lsn,
    commit_time: PgTime,
    /// The position of the next event, if it is at the same LSN as the last one.
    change_lsn: Lsn,
    next_ordinal: u64,
    events: u64,
}

impl Transactions {
    /// The beginning of a session, before any transaction.
    pub fn new() -> Self {
        Transactions { open: None, last_end: Lsn::ZERO }
    }

    /// Whether a transaction has begun and not committed.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Where the open transaction commits.
    pub fn commit_lsn(&self) -> Option<Lsn> {
        self.open.as_ref().map(|open| open.commit_lsn)
    }

    /// A transaction begins.
    pub fn begin(&mut self, commit_lsn: Lsn, commit_time: PgTime) -> Result<(), TransactionError> {
        if let Some(open) = &self.open {
            return Err(TransactionError::NestedBegin { open: open.commit_lsn, new: commit_lsn });
        }
        self.open = Some(Open {
            commit_lsn,
            commit_time,
            change_lsn: Lsn::ZERO,
            next_ordinal: 0,
            events: 0,
        });
        Ok(())
    }

    /// The next event of the open transaction, of the change at this LSN: its position and its
    /// commit time.
    ///
    /// The server merges the changes of subtransactions by LSN, so they come in that order. If one
    /// should ever be before the last, it is counted as one more at the LSN of that one: positions
    /// must increase, or comparing them could not separate events that are done from the others.
    pub fn event(&mut self, change_lsn: Lsn) -> Result<(Position, PgTime), TransactionError> {
        let open = self.open.as_mut().ok_or(TransactionError::RowOutside)?;
        if change_lsn > open.change_lsn {
            open.change_lsn = change_lsn;
            open.next_ordinal = 0;
        }
        let position = Position {
            commit_lsn: open.commit_lsn,
            change_lsn: open.change_lsn,
            ordinal: open.next_ordinal,
            in_transaction: open.events,
        };
        open.next_ordinal += 1;
        open.events += 1;
        Ok((position, open.commit_time))
    }

    /// The open transaction ends; returns the end of its commit.
    pub fn commit(&mut self, commit_lsn: Lsn, end_lsn: Lsn) -> Result<Lsn, TransactionError> {
        let open = self.open.take().ok_or(TransactionError::CommitOutside(commit_lsn))?;
        if open.commit_lsn != commit_lsn {
            return Err(TransactionError::CommitMismatch {
                begun: open.commit_lsn,
                committed: commit_lsn,
            });
        }
        if end_lsn <= self.last_end {
            return Err(TransactionError::CommitWentBack { last: self.last_end, end: end_lsn });
        }
        self.last_end = end_lsn;
        Ok(end_lsn)
    }
}

impl Default for Transactions {
    fn default() -> Self {
        Transactions::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Lsn = Lsn::new(100);
    const B: Lsn = Lsn::new(200);
    const TIME: PgTime = PgTime(7);

    #[test]
    fn positions_rise_and_start_again_with_each_change() {
        let mut transactions = Transactions::new();
        transactions.begin(A, TIME).unwrap();
        let numbers = [(10, 0), (10, 1), (10, 2), (20, 0), (30, 0), (30, 1)];
        for (in_transaction, (change, ordinal)) in (0..).zip(numbers) {
            let change_lsn = Lsn::new(change);
            let position = Position { commit_lsn: A, change_lsn, ordinal, in_transaction };
            assert_eq!(transactions.event(change_lsn), Ok((position, TIME)));
        }
        assert_eq!(transactions.commit(A, B), Ok(B));
        assert!(!transactions.is_open());
    }

    #[test]
    fn a_change_before_the_last_does_not_stand_before_it() {
        let mut transactions = Transactions::new();
        transactions.begin(A, TIME).unwrap();
        let mut at = |change| {
            let (position, _) = transactions.event(Lsn::new(change)).unwrap();
            (position.change_lsn, position.ordinal)
        };
        let positions = [at(10), at(30), at(20), at(30), at(40)];
        assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    }

    #[test]
    fn breaches_have_names() {
        let mut transactions = Transactions::new();
        assert_eq!(transactions.event(A), Err(TransactionError::RowOutside));
        assert_eq!(transactions.commit(A, B), Err(TransactionError::CommitOutside(A)));
        transactions.begin(A, TIME).unwrap();
        assert_eq!(
            transactions.begin(B, TIME),
            Err(TransactionError::NestedBegin { open: A, new: B })
        );
        assert_eq!(
            transactions.commit(B, B),
            Err(TransactionError::CommitMismatch { begun: A, committed: B })
        );
    }

    #[test]
    fn commit_ends_rise() {
        let mut transactions = Transactions::new();
        transactions.begin(A, TIME).unwrap();
        transactions.commit(A, B).unwrap();
        transactions.begin(A, TIME).unwrap();
        assert_eq!(
            transactions.commit(A, B),
            Err(TransactionError::CommitWentBack { last: B, end: B })
        );
    }
}
