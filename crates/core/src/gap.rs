//! Why a slot may lack events (ADR 20).

use crate::lsn::Lsn;

/// Why the stored progress does not fit the slot: events may be in the tables but not in Kafka.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    /// The slot no longer exists.
    #[error("slot \"{slot}\" is gone: it was dropped, or lost in a failover or a restore")]
    Missing {
        /// Its name.
        slot: String,
    },
    /// The server has invalidated the slot.
    #[error("slot \"{slot}\" was invalidated: {by}")]
    Lost {
        /// Its name.
        slot: String,
        /// Why.
        by: LostBy,
    },
    /// The slot is ahead of the stored position.
    #[error(
        "slot \"{slot}\" is at {found}, but only events before {stored} are known to be published: \
         somebody has moved the slot, or dropped and recreated it"
    )]
    Ahead {
        /// Its name.
        slot: String,
        /// Its position.
        found: Lsn,
        /// What is stored.
        stored: Lsn,
    },
    /// The stored position is beyond the end of the server's log.
    #[error(
        "the stored position {stored} of slot \"{slot}\" is beyond the end of the server's log, \
         {end}: it was changed by hand, or the log was reset, so it is unknown which events are \
         published"
    )]
    Beyond {
        /// The slot's name.
        slot: String,
        /// What is stored.
        stored: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// The progress was stored on another server.
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
        "slot \"{slot}\" still has to read WAL from before publication \"{publication}\" was \
         created, and events that were written then can't be read through it"
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
    /// How to fix it.
    pub fn fix(&self) -> String {
        let (Gap::Missing { slot }
        | Gap::Lost { slot, .. }
        | Gap::Ahead { slot, .. }
        | Gap::Beyond { slot, .. }
        | Gap::OtherSystem { slot, .. }
        | Gap::Predates { slot, .. }
        | Gap::Lapse { slot, .. }) = self;
        let prevent = match self {
            Gap::Lost { by, .. } => by.prevention(),
            _ => "",
        };
        format!("{RECOVER}; {}{prevent}", give_up(slot))
    }

    /// A label for it, for programs.
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

/// Why a server has invalidated a slot (`pg_replication_slots.invalidation_reason`, from Postgres
/// 17 on).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostBy {
    /// It needed more WAL than the server is allowed to keep.
    RemovedWal,
    /// Nobody has used it for too long.
    Idleness,
    /// The server was started without what logical decoding needs.
    WalLevel,
    /// Another cause, which only the server names.
    Other,
}

impl LostBy {
    /// From the server's word for it; earlier servers have none, and only one cause.
    pub fn from_server(reason: Option<&str>) -> Self {
        match reason {
            None | Some("wal_removed") => LostBy::RemovedWal,
            Some("idle_timeout") => LostBy::Idleness,
            Some("wal_level_insufficient") => LostBy::WalLevel,
            Some(_) => LostBy::Other,
        }
    }

    fn prevention(self) -> &'static str {
        match self {
            LostBy::RemovedWal => "; raise max_slot_wal_keep_size to prevent it",
            LostBy::Idleness => {
                "; set idle_replication_slot_timeout to 0 (off) or higher to prevent it"
            }
            LostBy::WalLevel => "; keep wal_level = logical to prevent it",
            LostBy::Other => "; pg_replication_slots, column invalidation_reason, has the cause",
        }
    }
}

impl std::fmt::Display for LostBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LostBy::RemovedWal => "the server removed WAL that the slot still needed",
            LostBy::Idleness => {
                "it was not used for longer than the server's idle_replication_slot_timeout"
            }
            LostBy::WalLevel => "the server was started with a wal_level below logical",
            LostBy::Other => "the server can no longer decode for it",
        })
    }
}

/// How to close a gap.
pub const RECOVER: &str = "run `postrider recover`, which creates a new slot and publishes the \
    tables' rows that may be missing (`--dry-run` counts them)";

/// How to accept it.
pub fn give_up(slot: &str) -> String {
    let slot = slot.replace('\'', "''");
    format!(
        "or, to give up the rows that may be missing, set postgres.snapshot to never (initial \
         would publish the whole tables again), drop the slot if it exists (SELECT \
         pg_drop_replication_slot('{slot}')), run DELETE FROM postrider.progress WHERE slot = \
         '{slot}', then `postrider migrate`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_was_given_up_names_the_setting_that_did_it() {
        #[track_caller]
        fn check(reason: Option<&str>, what: &str, setting: &str) {
            let gap = Gap::Lost { slot: "s".to_owned(), by: LostBy::from_server(reason) };
            assert!(gap.to_string().contains(what), "{gap}");
            assert!(gap.fix().contains(setting), "{}", gap.fix());
        }
        check(None, "removed WAL", "raise max_slot_wal_keep_size");
        check(Some("wal_removed"), "removed WAL", "raise max_slot_wal_keep_size");
        check(Some("idle_timeout"), "it was not used", "set idle_replication_slot_timeout to 0");
        check(Some("wal_level_insufficient"), "wal_level", "keep wal_level = logical");
        check(Some("rows_removed"), "can no longer decode", "invalidation_reason");
    }
}
