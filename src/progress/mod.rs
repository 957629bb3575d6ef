//! Stored progress: how far the relay has come, kept in the database itself (ADR 17).
//!
//! A position is stored *before* the slot is told, and the slot is told nothing else. So a slot that
//! is further than what is stored was moved, or dropped and made anew, by somebody else: the events
//! in between were never published, and only an operator can say what is to become of them. A slot
//! that is behind is none the worse for it: servers write a slot's position down at checkpoints
//! only, and after a crash the stream starts at the stored position instead of repeating what was done.

mod awaiting_standbys;
pub mod coverage;
mod destination;
mod inside;
mod promise;
pub mod store;
mod trace;
mod writer;

use postrider_core::lsn::Lsn;

pub(crate) use self::awaiting_standbys::AwaitingStandbys;
pub use self::destination::{DestinationCheck, DestinationError, WrongDestination};
pub use self::inside::Inside;
pub(crate) use self::inside::depends_on;
pub use self::promise::{Lapse, Promise, PromiseState, Unsent};
pub(crate) use self::promise::{fix_unread, lapses, unread, unread_rows};
pub use self::trace::{Trace, are_same, traces};
pub(crate) use self::writer::{ProgressEvent, ProgressWriter, Reading};
pub(crate) use postrider_core::gap::{Gap, LostBy, RECOVER, give_up};

/// A position that is stored, and that the server may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLsn(Lsn);

impl StoredLsn {
    /// The position.
    pub fn lsn(self) -> Lsn {
        self.0
    }

    /// What lies before a stored position is as good as stored.
    pub fn or_before(self, lsn: Lsn) -> Self {
        StoredLsn(self.0.min(lsn))
    }
}

/// Which server it is: positions of different servers, or timelines, have nothing to do with each
/// other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// A number made by initdb.
    pub system_identifier: String,
    /// Counts promotions.
    pub timeline: i32,
}

/// What is stored of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Changes when the slot was made anew.
    pub generation: String,
    /// Unknown before the first start of a relay.
    pub system_identifier: Option<String>,
    /// Everything before it is done.
    pub position: Lsn,
    /// The slot was made by us, or a relay has come further since it adopted it.
    pub has_moved: bool,
    /// How far the transaction after it is done, if any of it is.
    pub inside: Option<Inside>,
}

/// Where the stream may begin: at the stored position, unless the slot shows that it is not ours, or
/// the log that the position can't be true. `log_end` must be read after the progress.
pub fn judge(
    slot: &str,
    progress: &Progress,
    here: &Identity,
    confirmed: Lsn,
    log_end: Lsn,
) -> Result<StoredLsn, Gap> {
    let stored = progress.position;
    match &progress.system_identifier {
        Some(system) if *system != here.system_identifier => Err(Gap::OtherSystem {
            slot: slot.to_owned(),
            found: here.system_identifier.clone(),
            stored: system.clone(),
        }),
        _ if confirmed > stored => {
            Err(Gap::Ahead { slot: slot.to_owned(), found: confirmed, stored })
        }
        // The server takes any position it is told, and would skip everything up to there.
        _ if stored > log_end => Err(Gap::Beyond { slot: slot.to_owned(), stored, end: log_end }),
        _ => Ok(StoredLsn(stored)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64, system: Option<&str>) -> Progress {
        Progress {
            generation: "g".to_owned(),
            system_identifier: system.map(str::to_owned),
            position: Lsn::new(position),
            has_moved: true,
            inside: None,
        }
    }

    #[test]
    fn only_a_slot_that_is_not_ahead_is_ours() {
        let here = Identity { system_identifier: "7".to_owned(), timeline: 1 };
        let check = |progress: Progress, confirmed: u64| {
            let end = Lsn::new(20);
            let judged = judge("s", &progress, &here, Lsn::new(confirmed), end);
            judged.map(|stored| stored.lsn().bytes())
        };
        assert_eq!(check(at(10, Some("7")), 10), Ok(10));
        assert_eq!(check(at(10, None), 9), Ok(10), "a server that crashed forgets");
        assert!(matches!(check(at(10, Some("7")), 11), Err(Gap::Ahead { .. })));
        assert!(matches!(check(at(10, Some("8")), 9), Err(Gap::OtherSystem { .. })));
        assert_eq!(check(at(20, Some("7")), 10), Ok(20));
        assert!(matches!(check(at(21, Some("7")), 10), Err(Gap::Beyond { .. })));
    }
}
