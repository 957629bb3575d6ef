//! Positions that are stored and must not be confirmed yet.

use super::StoredLsn;
use postrider_core::lsn::Lsn;

/// The oldest and the newest, each with how far the stream must have been read. Those in between
/// are not needed.
#[derive(Debug, Default)]
pub(crate) struct AwaitingStandbys {
    oldest: Option<(StoredLsn, Lsn)>,
    newest: Option<(StoredLsn, Lsn)>,
}

impl AwaitingStandbys {
    /// A position that was stored before.
    pub(crate) fn of(stored: StoredLsn, safe_once_read_to: Lsn) -> Self {
        AwaitingStandbys { oldest: Some((stored, safe_once_read_to)), newest: None }
    }

    /// A position was stored.
    pub(crate) fn push(&mut self, stored: StoredLsn, safe_once_read_to: Lsn) {
        match self.oldest {
            None => self.oldest = Some((stored, safe_once_read_to)),
            Some(_) => self.newest = Some((stored, safe_once_read_to)),
        }
    }

    /// One that may be confirmed, now that the stream has been read up to `seen`.
    pub(crate) fn pop(&mut self, seen: Lsn) -> Option<StoredLsn> {
        let (stored, _) =
            self.oldest.take_if(|(_, safe_once_read_to)| *safe_once_read_to <= seen)?;
        self.oldest = self.newest.take();
        Some(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_stream_has_passed_may_be_told_and_what_comes_often_starves_nobody() {
        let at = |position| StoredLsn(Lsn::new(position));
        let mut awaiting_standbys = AwaitingStandbys::default();
        awaiting_standbys.push(at(1), Lsn::new(10));
        for position in 2..9 {
            awaiting_standbys.push(at(position), Lsn::new(10 + position));
        }
        assert_eq!(awaiting_standbys.pop(Lsn::new(9)), None);
        assert_eq!(awaiting_standbys.pop(Lsn::new(10)), Some(at(1)));
        assert_eq!(awaiting_standbys.pop(Lsn::new(10)), None);
        assert_eq!(awaiting_standbys.pop(Lsn::new(18)), Some(at(8)));
        assert_eq!(awaiting_standbys.pop(Lsn::new(99)), None);
    }
}
