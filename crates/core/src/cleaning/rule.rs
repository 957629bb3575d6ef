//! When a row may be deleted: the decision, without a database.
//!
//! A row is *certainly done* when every slot that covers its table has passed it. That a slot has
//! passed a position means nothing for rows that were never in the slot, so each slot also has a
//! transaction from which on it has all rows ([`SlotCoverage::since`]).

use crate::lsn::Lsn;

/// What is stored of a slot and one of the tables it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotCoverage {
    /// The slot.
    pub slot: String,
    /// Slot, generation, table, membership and beginning: if one changes, so does this.
    pub fingerprint: String,
    /// The slot's own generation.
    pub generation: String,
    /// The table's OID.
    pub outbox: u32,
    /// Rows of this transaction and later ones are in the slot.
    pub since: u64,
    /// Everything before it is done.
    pub position: Lsn,
    /// The position is one of this server.
    pub is_here: bool,
    /// The table is in the publication, and has been since the slot began to cover it.
    pub is_published: bool,
}

/// The slot of this relay, which is streaming, and the table in question.
#[derive(Debug, Clone, Copy)]
pub struct OwnSlot<'a> {
    /// Its name.
    pub slot: &'a str,
    /// The generation of the slot that the session uses.
    pub generation: &'a str,
    /// The table's OID.
    pub outbox: u32,
}

/// Why it is unknown which of a table's rows are done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Uncertain {
    /// Our own slot does not cover it, or the session began with another slot.
    #[error("this relay's slot does not cover the table as it did when the session started")]
    NotOurs,
    /// The progress of a slot was stored on another server, or can't be true.
    #[error(
        "the progress of slot \"{0}\" was not stored by a relay of this server, or is beyond its \
         log: start its relay; or, if that slot is not used here, run `postrider --slot {0} \
         teardown`, which deletes its parked events too: to keep them, drop the slot and run \
         `postrider dead take-over --from {0}` first"
    )]
    OtherServer(String),
    /// The table was out of the publication, or it has not been checked yet whether it was.
    #[error(
        "slot \"{0}\" may lack rows of it: the table was not always in the publication, or that \
         slot's relay has not checked this yet; start that relay, which logs what to do. If the \
         slot is not used any more, run `postrider --slot {0} teardown`, which deletes its parked \
         events too: to keep them, drop the slot and run `postrider dead take-over --from {0}` \
         first"
    )]
    NotPublished(String),
}

/// Which slots cover a table, and how: what must not change from the moment rows are picked until
/// they are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageFingerprint {
    /// The fingerprints of all coverages of the table, in order.
    pub text: String,
    /// Rows of this transaction and later ones are in every slot.
    pub since: u64,
}

impl CoverageFingerprint {
    /// Of what covers the table now, in the order of slot and table.
    pub fn of(coverage: &[SlotCoverage], own: OwnSlot<'_>) -> Result<Self, Uncertain> {
        let is_ours = |it: &SlotCoverage| {
            it.slot == own.slot && it.generation == own.generation && it.outbox == own.outbox
        };
        if !coverage.iter().any(is_ours) {
            return Err(Uncertain::NotOurs);
        }
        if let Some(other) = coverage.iter().find(|it| !it.is_here) {
            return Err(Uncertain::OtherServer(other.slot.clone()));
        }
        if let Some(lapsed) = coverage.iter().find(|it| !it.is_published) {
            return Err(Uncertain::NotPublished(lapsed.slot.clone()));
        }
        let fingerprints: Vec<&str> = coverage.iter().map(|it| it.fingerprint.as_str()).collect();
        let since = coverage.iter().map(|it| it.since).max().unwrap_or(u64::MAX);
        Ok(CoverageFingerprint { text: fingerprints.join(","), since })
    }
}

/// What to do with rows that were picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// They may be deleted: all slots have passed the position.
    Delete,
    /// These slots have not passed it yet.
    WaitFor(Vec<String>),
    /// The table is covered in another way than when they were picked: they must not be deleted.
    Discard,
}

/// Decides about rows that were visible before the log's end was `limit`.
pub fn decide(
    picked: &CoverageFingerprint,
    coverage: &[SlotCoverage],
    own: OwnSlot<'_>,
    limit: Lsn,
) -> Decision {
    match CoverageFingerprint::of(coverage, own) {
        Ok(now) if now == *picked => {}
        _ => return Decision::Discard,
    }
    let behind = coverage.iter().filter(|it| it.position < limit);
    let mut slots: Vec<String> = behind.map(|it| it.slot.clone()).collect();
    slots.dedup();
    if slots.is_empty() { Decision::Delete } else { Decision::WaitFor(slots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OwnSlot<'_> = OwnSlot { slot: "a", generation: "g", outbox: 7 };

    fn cover(slot: &str, since: u64, position: u64) -> SlotCoverage {
        SlotCoverage {
            slot: slot.to_owned(),
            fingerprint: format!("{slot} g 7 1 {since}"),
            generation: "g".to_owned(),
            outbox: 7,
            since,
            position: Lsn::new(position),
            is_here: true,
            is_published: true,
        }
    }

    #[test]
    fn every_slot_must_have_passed_and_the_youngest_beginning_counts() {
        let mut coverage = vec![cover("a", 5, 100), cover("b", 9, 50)];
        let picked = CoverageFingerprint::of(&coverage, OWN).unwrap();
        assert_eq!(picked.since, 9);
        let limit = Lsn::new(60);
        assert_eq!(decide(&picked, &coverage, OWN, limit), Decision::WaitFor(vec!["b".to_owned()]));
        coverage[1].position = limit;
        assert_eq!(decide(&picked, &coverage, OWN, limit), Decision::Delete);
    }

    #[test]
    fn any_change_makes_what_was_picked_worthless() {
        let coverage = vec![cover("a", 5, 100), cover("b", 9, 100)];
        let picked = CoverageFingerprint::of(&coverage, OWN).unwrap();
        let check = |change: fn(&mut Vec<SlotCoverage>)| {
            let mut now = coverage.clone();
            change(&mut now);
            assert_eq!(decide(&picked, &now, OWN, Lsn::new(1)), Decision::Discard);
        };
        check(|now| now[0].generation = "h".to_owned());
        check(|now| now[1].fingerprint = "b h 7 1 9".to_owned());
        check(|now| now[1].is_published = false);
        check(|now| now[1].is_here = false);
        check(|now| drop(now.pop()));
        check(|now| drop(now.remove(0)));
        check(|now| now.push(cover("c", 1, 100)));
    }

    #[test]
    fn a_table_that_we_do_not_cover_ourselves_is_left_alone() {
        let other = OwnSlot { outbox: 8, ..OWN };
        assert_eq!(CoverageFingerprint::of(&[cover("a", 5, 9)], other), Err(Uncertain::NotOurs));
        assert_eq!(CoverageFingerprint::of(&[cover("b", 5, 9)], OWN), Err(Uncertain::NotOurs));
        let stale = SlotCoverage { is_here: false, ..cover("b", 5, 9) };
        let found = CoverageFingerprint::of(&[cover("a", 5, 9), stale], OWN);
        assert_eq!(found, Err(Uncertain::OtherServer("b".to_owned())));
    }
}
