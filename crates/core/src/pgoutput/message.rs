//! The messages of protocol version 1 and logical messages.

use crate::lsn::Lsn;
use crate::pgoutput::Tuple;

/// A table's number in this stream: an OID, so never a stable name.
pub type RelationId = u32;

/// One message of the stream, borrowed from the bytes it came in.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// A committed transaction begins.
    Begin {
        /// Where its commit record starts.
        commit_lsn: Lsn,
        /// When it committed.
        commit_time: PgTime,
        /// Its transaction id.
        xid: u32,
    },
    /// A transaction ends.
    Commit {
        /// Where its commit record starts.
        commit_lsn: Lsn,
        /// Where its commit record ends: what may be confirmed.
        end_lsn: Lsn,
        /// When it committed.
        commit_time: PgTime,
    },
    /// The transaction was replicated from elsewhere.
    Origin {
        /// The commit's position at the origin.
        commit_lsn: Lsn,
        /// The origin's name.
        name: &'a str,
    },
    /// A table's shape, before its first row and after each change of it.
    Relation(Relation<'a>),
    /// A type that is not built in.
    Type {
        /// Its OID.
        oid: u32,
        /// Its schema.
        schema: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// A new row.
    Insert {
        /// Its table.
        relation: RelationId,
        /// Its values.
        row: Tuple<'a>,
    },
    /// A changed row.
    Update {
        /// Its table.
        relation: RelationId,
        /// The old key or row, if the replica identity asks for it.
        old: Option<Tuple<'a>>,
        /// The new values.
        row: Tuple<'a>,
    },
    /// A deleted row.
    Delete {
        /// Its table.
        relation: RelationId,
        /// The old key or row.
        old: Tuple<'a>,
    },
    /// Emptied tables.
    Truncate {
        /// How many tables.
        tables: usize,
        /// CASCADE (1) and RESTART IDENTITY (2).
        options: u8,
    },
    /// `pg_logical_emit_message`.
    Logical {
        /// False: written at once, outside Begin and Commit, even by a transaction that rolls back.
        transactional: bool,
        /// Its position.
        lsn: Lsn,
        /// Chosen by the writer: any bytes, so it need not be text.
        prefix: &'a [u8],
        /// Its content.
        content: &'a [u8],
    },
}

/// A table's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation<'a> {
    /// Its number in this stream.
    pub id: RelationId,
    /// Its schema; empty means `pg_catalog`.
    pub schema: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The replica identity setting.
    pub replica_identity: u8,
    /// Its published columns, in the order of the values in each row.
    pub columns: Vec<RelationColumn<'a>>,
}

/// For people: names as they are, which are not always quoted as SQL needs them.
impl std::fmt::Display for Relation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A published column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelationColumn<'a> {
    /// 1 if part of the replica identity.
    pub flags: u8,
    /// Its name.
    pub name: &'a str,
    /// Its type's OID.
    pub type_oid: u32,
    /// Its type's modifier.
    pub type_modifier: i32,
}

/// Microseconds since 2000-01-01 00:00 UTC, as Postgres counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PgTime(pub i64);

/// 2000-01-01 as microseconds of the Unix epoch.
const PG_EPOCH_UNIX_MICROS: i64 = 946_684_800_000_000;

impl PgTime {
    /// Microseconds since 1970-01-01 00:00 UTC.
    pub fn unix_micros(self) -> i64 {
        self.0.saturating_add(PG_EPOCH_UNIX_MICROS)
    }

    /// The Postgres time of a Unix time.
    pub fn from_unix_micros(micros: i64) -> Self {
        PgTime(micros.saturating_sub(PG_EPOCH_UNIX_MICROS))
    }
}
