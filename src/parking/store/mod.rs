//! The side table `postrider.undelivered`: all SQL on it.
//!
//! The rules:
//!
//! - Within a key, rows leave in the order of the log (`commit_lsn, change_lsn, ordinal`), not in
//!   the order in which they were parked: an event that was in flight when a later one of its key
//!   was parked can follow it into the table.
//! - Nothing is claimed before the slot has confirmed its commit. From then on all earlier events
//!   of its key are published or here, so the first row in the table is the first of all events.
//! - Whatever changes the first row of a key (parking after it, acknowledging, releasing, freeing,
//!   discarding, replaying) happens under one [`lock`], in a short transaction. So a row that waits
//!   for another (`next_attempt_at = 'infinity'`) is always seen by the transaction that finishes
//!   the one before it.
//! - Only the holder of a row's lease may record what became of it.
//! - Positions belong to a server, and rows to a slot: what comes from another server is rebased
//!   when a session opens ([`rebase`]), and what belongs to a slot that is gone can be taken over.

mod claim;
mod dead;
mod discarded;
mod keys;
mod lock;
mod names;
mod orphans;
mod park;
mod rebase;
mod reference;
mod replay;
mod settle;
mod upkeep;

use tokio_postgres::{Client, Error};

pub use self::claim::{Claim, claim, due};
pub(crate) use self::dead::{Entry, count, discard, entry, hex, list, value};
pub use self::discarded::clean_discarded;
pub(crate) use self::keys::has_live;
pub use self::keys::{free_keys, held_keys, live_total, promote};
pub use self::lock::{begin_parking, lock};
pub(crate) use self::names::follow_rename;
pub(crate) use self::orphans::{LoggedOrphans, are_takeovers_known, mark_takeovers_known};
pub use self::orphans::{TakeOver, orphans, plan_take_over, take_over, takeovers};
pub(crate) use self::orphans::{is_being_created, is_gone};
pub use self::park::{ParkError, ParkingSession, park};
pub(crate) use self::rebase::LOWEST_LSN;
pub use self::rebase::{rebase, rescope};
pub use self::reference::reference_value;
pub(crate) use self::replay::{
    DeadCount, DeadPosition, DeadRow, FailedAgain, confirmed_lsn, dead_counts, dead_positions,
    front_rows, lock_dead, newest_id, settle_replayed,
};
pub use self::settle::{Acknowledged, Failure, acknowledge, expire, fail, release_untried};
pub use self::upkeep::{clean, counts, sweep};
use crate::postgres::Purpose;
use crate::schema::live;
use postrider_core::order::{OrderKey, OrderedBy};
use postrider_core::parking::{Completeness, SchemaToFind};

/// What [`ParkedRow::read`] reads.
macro_rules! record_columns {
    () => {
        "id, source_table, row_id, idempotency_key, tenant, ordering_key, topic, partition, \
         whole_topic, key, partition_by, schema_to_find::text AS schema_to_find, \
         adds_committed_at, value, value_bytes, headers::text AS headers, form, attempts, \
         (extract(epoch FROM \"timestamp\") * 1000000)::bigint AS commit_unix_micros"
    };
}
use record_columns;

/// The id of the first row of `u`'s key that is not done. A subquery with a LIMIT is never turned
/// into a join, so it is always one index lookup.
macro_rules! first_of_key {
    () => {
        concat!(
            "(SELECT h.id FROM postrider.undelivered h",
            " WHERE h.slot = u.slot AND h.key_id = u.key_id AND h.status IN ",
            $crate::schema::live!(),
            " ORDER BY h.commit_lsn, h.change_lsn, h.ordinal, h.id LIMIT 1)"
        )
    };
}
use first_of_key;

/// A claimed event: everything that is needed to publish it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParkedRow {
    /// Its id in the side table.
    pub id: i64,
    /// The outbox table's name.
    pub source_table: String,
    /// The outbox row's id.
    pub row_id: Option<String>,
    /// What consumers dedupe on.
    pub idempotency_key: Option<String>,
    /// Whose event it is.
    pub tenant: Option<String>,
    /// What keeps it in order.
    pub ordering_key: Option<String>,
    /// Where it goes.
    pub topic: String,
    /// An explicit partition.
    pub partition: Option<i32>,
    /// It keeps its order with all events of its topic.
    pub whole_topic: bool,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// What decides the partition in place of the key.
    pub partition_by: Option<Vec<u8>>,
    /// The schema that has to be looked up before the record can be sent.
    pub schema: Option<SchemaToFind>,
    /// The record gets the header `committed-at` if its timestamp has to differ.
    pub adds_committed_at: bool,
    /// The record's value; none is a tombstone, unless `completeness` shows that the value is
    /// elsewhere.
    pub value: Option<Vec<u8>>,
    /// The length of the value, whether it is here or not.
    pub value_bytes: usize,
    /// The headers as a JSON array of pairs.
    pub headers: String,
    /// When it was committed.
    pub commit_unix_micros: i64,
    /// How much of the record is here.
    pub completeness: Completeness,
    /// How often it was claimed, this time included.
    pub attempts: u32,
}

impl ParkedRow {
    /// What it keeps its order with, if anything.
    pub fn order_key(&self) -> Option<OrderKey> {
        OrderKey::of(&self.topic, self.ordering_key.as_deref(), self.partition, self.whole_topic)
    }

    /// What its order is kept by.
    pub(crate) fn ordered_by(&self) -> OrderedBy {
        OrderedBy::of(self.ordering_key.is_some(), self.partition.is_some(), self.whole_topic)
    }
}

/// Sets up a session for this table.
pub async fn begin_session(client: &Client) -> Result<(), Error> {
    Purpose::SideTable.begin(client).await
}

/// Text as Postgres accepts it: only bytea columns can hold the one character that text cannot.
fn sql_text(text: &str) -> String {
    text.replace('\0', "\u{1a}")
}
