//! When a row may be deleted: the decision, without a database.
//!
//! A row is *certainly done* when every slot that covers its table has passed it. That a slot has
//! passed a position means nothing for rows that were never in the slot, so each slot also has a
//! transaction from which on it has all rows ([`Cover::since`]).

use crate::lsn::Lsn;

/// What is stored of a slot and one of the tables it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// The slot.
    pub slot: String,
    /// Slot, generation, table, membership and beginning. If one changes, so does the mark.
    pub mark: String,
    /// The slot's own generation.
    pub generation: String,
    /// The table's number.
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

/// The relay that asks; it is streaming.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Its slot.
    pub slot: &'a str,
    /// The generation of the slot that its session uses.
    pub generation: &'a str,
    /// The table in question.
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

/// What must not change from the moment rows are picked until they are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The marks of all covers of the table, in order.
    pub marks: String,
    /// Rows of this transaction and later ones are in every slot.
    pub since: u64,
}

impl Standing {
    /// What covers the table now. The covers are in the order of slot and table.
    pub fn of(covers: &[Cover], asker: Asker<'_>) -> Result<Self, Uncertain> {
        let is_ours = |cover: &Cover| {
            cover.slot == asker.slot
                && cover.generation == asker.generation
                && cover.outbox == asker.outbox
        };
        if !covers.iter().any(is_ours) {
            return Err(Uncertain::NotOurs);
        }
        if let Some(other) = covers.iter().find(|cover| !cover.is_here) {
            return Err(Uncertain::OtherServer(other.slot.clone()));
        }
        if let Some(lapsed) = covers.iter().find(|cover| !cover.is_published) {
            return Err(Uncertain::NotPublished(lapsed.slot.clone()));
        }
        let marks: Vec<&str> = covers.iter().map(|cover| cover.mark.as_str()).collect();
        let since = covers.iter().map(|cover| cover.since).max().unwrap_or(u64::MAX);
        Ok(Standing { marks: marks.join(","), since })
    }
}

/// Whether rows that were picked before a position may be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All slots have passed the position.
    Done,
    /// These have not.
    Wait(Vec<String>),
    /// The covers have changed since the rows were picked: these must be forgotten.
    Forget,
}

/// Judges rows that were visible before the log's end was `limit`.
pub fn judge(picked: &Standing, covers: &[Cover], asker: Asker<'_>, limit: Lsn) -> Verdict {
    match Standing::of(covers, asker) {
        Ok(now) if now == *picked => {}
        _ => return Verdict::Forget,
    }
    let behind = covers.iter().filter(|cover| cover.position < limit);
    let mut slots: Vec<String> = behind.map(|cover| cover.slot.clone()).collect();
    slots.dedup();
    if slots.is_empty() { Verdict::Done } else { Verdict::Wait(slots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: Asker<'_> = Asker { slot: "a", generation: "g", outbox: 7 };

    fn cover(slot: &str, since: u64, position: u64) -> Cover {
        Cover {
            slot: slot.to_owned(),
            mark: format!("{slot} g 7 1 {since}"),
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
        let mut covers = vec![cover("a", 5, 100), cover("b", 9, 50)];
        let picked = Standing::of(&covers, ASKER).unwrap();
        assert_eq!(picked.since, 9);
        let limit = Lsn::new(60);
        assert_eq!(judge(&picked, &covers, ASKER, limit), Verdict::Wait(vec!["b".to_owned()]));
        covers[1].position = limit;
        assert_eq!(judge(&picked, &covers, ASKER, limit), Verdict::Done);
    }

    #[test]
    fn any_change_makes_what_was_picked_worthless() {
        let covers = vec![cover("a", 5, 100), cover("b", 9, 100)];
        let picked = Standing::of(&covers, ASKER).unwrap();
        let check = |change: fn(&mut Vec<Cover>)| {
            let mut now = covers.clone();
            change(&mut now);
            assert_eq!(judge(&picked, &now, ASKER, Lsn::new(1)), Verdict::Forget);
        };
        check(|now| now[0].generation = "h".to_owned());
        check(|now| now[1].mark = "b h 7 1 9".to_owned());
        check(|now| now[1].is_published = false);
        check(|now| now[1].is_here = false);
        check(|now| drop(now.pop()));
        check(|now| drop(now.remove(0)));
        check(|now| now.push(cover("c", 1, 100)));
    }

    #[test]
    fn a_table_that_we_do_not_cover_ourselves_is_left_alone() {
        let other = Asker { outbox: 8, ..ASKER };
        assert_eq!(Standing::of(&[cover("a", 5, 9)], other), Err(Uncertain::NotOurs));
        assert_eq!(Standing::of(&[cover("b", 5, 9)], ASKER), Err(Uncertain::NotOurs));
        let stale = Cover { is_here: false, ..cover("b", 5, 9) };
        let found = Standing::of(&[cover("a", 5, 9), stale], ASKER);
        assert_eq!(found, Err(Uncertain::OtherServer("b".to_owned())));
    }
}
