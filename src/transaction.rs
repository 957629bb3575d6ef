//! Begin, rows, Commit → positions. No I/O.
//!
//! With protocol version 1 and no streaming only committed transactions arrive, one after the other
//! and never interleaved. So a row can be published as it comes, and what this module keeps does not
//! grow with the transaction. What must rise within a session is the end of the commits, and only
//! that: the start positions of interleaved transactions go back and forth (ADR 0003).

use crate::lsn::Lsn;
use crate::pgoutput::PgTime;

/// Where an event stands in the log: rows of one COPY can share one LSN, so the commit's position
/// and a running number inside the transaction name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Where the commit record starts.
    pub commit_lsn: Lsn,
    /// The number of the event in its transaction, from 0.
    pub ordinal: u64,
}

/// A stream that breaks the rules of the protocol. Nothing may be confirmed on its word.
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
    /// A row that belongs to no transaction.
    #[error("a row outside of a transaction")]
    RowOutside,
    /// A commit without a beginning.
    #[error("a commit at {0} without its beginning")]
    CommitOutside(Lsn),
    /// A commit that is not the one announced.
    #[error("the transaction announced to commit at {begun} commits at {committed}")]
    CommitMismatch {
        /// What Begin said.
        begun: Lsn,
        /// What Commit says.
        committed: Lsn,
    },
    /// A commit that ends before an earlier one.
    #[error("a commit that ends at {end} comes after one that ended at {last}")]
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
    next_ordinal: u64,
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
        self.open = Some(Open { commit_lsn, commit_time, next_ordinal: 0 });
        Ok(())
    }

    /// An event of the open transaction: its position and its commit time.
    pub fn event(&mut self) -> Result<(Position, PgTime), TransactionError> {
        let open = self.open.as_mut().ok_or(TransactionError::RowOutside)?;
        let position = Position { commit_lsn: open.commit_lsn, ordinal: open.next_ordinal };
        open.next_ordinal += 1;
        Ok((position, open.commit_time))
    }

    /// The open transaction ends; gives back the end of its commit.
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
    fn numbers_the_events_of_a_transaction() {
        let mut transactions = Transactions::new();
        transactions.begin(A, TIME).unwrap();
        for ordinal in 0..3 {
            assert_eq!(transactions.event(), Ok((Position { commit_lsn: A, ordinal }, TIME)));
        }
        assert_eq!(transactions.commit(A, B), Ok(B));
        assert!(!transactions.is_open());
    }

    #[test]
    fn breaches_have_names() {
        let mut transactions = Transactions::new();
        assert_eq!(transactions.event(), Err(TransactionError::RowOutside));
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
