//! Stored progress: the position up to which everything is done, kept in the database itself (ADR
//! 17).
//!
//! A position is stored *before* it is confirmed to the slot, and only stored positions are
//! confirmed. So a slot that is ahead of the stored position was moved, or dropped and recreated,
//! by somebody else: the events in between were never published, and only an operator can decide
//! about them. A slot that is behind the stored position does no harm: servers save a slot's
//! position at checkpoints only, and after a crash the stream starts at the stored position instead
//! of repeating events.

mod awaiting_standbys;
pub(crate) mod coverage;
mod destination;
mod inside;
mod promise;
pub(crate) mod store;
mod trace;
mod writer;

use postrider_core::lsn::Lsn;

pub(crate) use self::awaiting_standbys::AwaitingStandbys;
pub(crate) use self::destination::{DestinationCheck, DestinationError};
pub(crate) use self::inside::Inside;
pub(crate) use self::inside::depends_on;
pub(crate) use self::promise::{Lapse, Promise, PromiseState, Unsent};
pub(crate) use self::promise::{fix_unread, lapses, unread, unread_rows};
pub(crate) use self::trace::{Trace, are_same, traces};
pub(crate) use self::writer::{ProgressEvent, ProgressWriter, Reading};
pub(crate) use postrider_core::gap::{Gap, LostBy, RECOVER, give_up};

/// A position that is stored, and may be confirmed to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredLsn(Lsn);

impl StoredLsn {
    /// The position.
    pub(crate) fn lsn(self) -> Lsn {
        self.0
    }

    /// A position before a stored one counts as stored.
    pub(crate) fn or_before(self, lsn: Lsn) -> Self {
        StoredLsn(self.0.min(lsn))
    }
}

/// Which server it is: positions of different servers, or timelines, can't be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// A number made by initdb.
    pub system_identifier: String,
    /// Counts promotions.
    pub timeline: i32,
}

/// What is stored of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Changes when the slot is recreated.
    pub generation: String,
    /// Unknown before the first start of a relay.
    pub system_identifier: Option<String>,
    /// Everything before it is done.
    pub position: Lsn,
    /// The slot was created by us, or a relay has moved it since it adopted it.
    pub has_moved: bool,
    /// How far the transaction after it is done, if any of it is.
    pub inside: Option<Inside>,
}

/// Where the stream may begin: at the stored position, unless the slot shows that it is not ours,
/// or the log shows that the position can't be true. `log_end` must be read after the progress.
pub(crate) fn judge(
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
        // The server accepts any position, and would skip everything before it.
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
