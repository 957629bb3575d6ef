//! What can have happened to a slot that makes events miss (ADR 20).

use crate::lsn::Lsn;

/// Why what is stored does not fit the slot: events may be in the tables and not in Kafka.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    /// There is no slot any more.
    #[error("slot \"{slot}\" is gone: dropped, or left behind by a failover or a restore")]
    Missing {
        /// Its name.
        slot: String,
    },
    /// The server has removed WAL that the slot needed.
    #[error("slot \"{slot}\" was invalidated: the server removed WAL it still needed")]
    Lost {
        /// Its name.
        slot: String,
    },
    /// The slot is further than what was stored.
    #[error(
        "slot \"{slot}\" stands at {found}, but only what lies before {stored} is known to be \
         published: somebody has moved the slot, or dropped it and made it anew"
    )]
    Ahead {
        /// Its name.
        slot: String,
        /// Where it stands.
        found: Lsn,
        /// What is stored.
        stored: Lsn,
    },
    /// What is stored is further than the server's log.
    #[error(
        "the stored position {stored} of slot \"{slot}\" is beyond the end of the server's log, {end}: \
         it was changed by hand, or the log was reset, so nobody can tell what is published"
    )]
    Beyond {
        /// The slot's name.
        slot: String,
        /// What is stored.
        stored: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// What is stored comes from another server.
    #[error(
        "the progress of slot \"{slot}\" was stored on another server (system {stored}; this is \
         {found}): this database is a copy"
    )]
    OtherSystem {
        /// The slot's name.
        slot: String,
        /// This server.
        found: String,
        /// The other one.
        stored: String,
    },
    /// The slot is older than the publication.
    #[error(
        "slot \"{slot}\" still has to read log from before publication \"{publication}\" was created, \
         and what was written then can't be read through it"
    )]
    Predates {
        /// The slot's name.
        slot: String,
        /// The publication's name.
        publication: String,
    },
    /// Tables were out of the publication for a while, or are not what they were.
    #[error("slot \"{slot}\" may lack rows: {}", .lapses.join("; "))]
    Lapse {
        /// The slot's name.
        slot: String,
        /// What happened, a sentence for each table.
        lapses: Vec<String>,
    },
}

impl Gap {
    /// The way out.
    pub fn fix(&self) -> String {
        let (Gap::Missing { slot }
        | Gap::Lost { slot }
        | Gap::Ahead { slot, .. }
        | Gap::Beyond { slot, .. }
        | Gap::OtherSystem { slot, .. }
        | Gap::Predates { slot, .. }
        | Gap::Lapse { slot, .. }) = self;
        let prevent = match self {
            Gap::Lost { .. } => "; raise max_slot_wal_keep_size to prevent it",
            _ => "",
        };
        format!("{RECOVER}; {}{prevent}", give_up(slot))
    }

    /// A word for it, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Gap::Missing { .. } => "missing",
            Gap::Lost { .. } => "lost",
            Gap::Ahead { .. } => "ahead",
            Gap::Beyond { .. } => "beyond",
            Gap::OtherSystem { .. } => "other_system",
            Gap::Predates { .. } => "predates_publication",
            Gap::Lapse { .. } => "lapse",
        }
    }
}

/// What mends a gap.
pub(crate) const RECOVER: &str = "run `postrider recover`, which makes a new slot and publishes from \
    the tables what may be missing (`--dry-run` shows how much)";

/// What forgets it.
pub(crate) fn give_up(slot: &str) -> String {
    let slot = slot.replace('\'', "''");
    format!(
        "or, to give up what may be missing, drop the slot if it is there (SELECT \
         pg_drop_replication_slot('{slot}')), run DELETE FROM postrider.progress WHERE slot = \
         '{slot}', then `postrider migrate`"
    )
}
