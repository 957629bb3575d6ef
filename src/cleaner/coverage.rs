//! What is stored of the slots that cover a table.

use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Error};

use postrider_core::cleaning::rule::Cover;
use postrider_core::lsn::Lsn;

/// All covers `c` of the tables `$1`, with their slots' progress `p` and that of our own slot `$2`.
/// An entry that was removed and made again has another number, and so does a publication.
macro_rules! covers {
    () => {
        "FROM postrider.coverage c JOIN postrider.progress p ON p.slot = c.slot \
         LEFT JOIN postrider.progress o ON o.slot = $2"
    };
}
pub(super) use covers;

/// Slot, generation, table, membership, beginning.
macro_rules! mark {
    () => {
        "concat_ws(' ', c.slot, p.generation, c.outbox::oid, c.membership, c.since)"
    };
}
pub(super) use mark;

/// The position is one of this server, and of its log: our own was compared with it when the session
/// began. One that can't be true stays stored until its slot was recovered.
macro_rules! is_here {
    () => {
        "coalesce(p.system_identifier = o.system_identifier \
                  AND p.position <= pg_current_wal_insert_lsn(), false)"
    };
}
pub(super) use is_here;

/// The table has been in the publication all the time, and is. Asked by the statement that deletes,
/// this is later than anything it deletes.
macro_rules! is_published {
    () => {
        concat!(
            "(c.table_state IS NOT NULL AND EXISTS (SELECT FROM (",
            $crate::progress::coverage::kept!(),
            ") AS now WHERE now.slot = c.slot AND now.outbox = c.outbox::oid))"
        )
    };
}
pub(super) use is_published;

/// The marks of all who cover the tables `$1`, in order, if all of them have passed `$3`.
macro_rules! marks_of_passed {
    () => {
        concat!(
            "SELECT CASE WHEN bool_and(p.position >= $3 AND ",
            $crate::cleaner::coverage::is_here!(),
            " AND ",
            $crate::cleaner::coverage::is_published!(),
            ") THEN string_agg(",
            $crate::cleaner::coverage::mark!(),
            ", ',' ORDER BY c.slot COLLATE \"C\", c.outbox::oid) END ",
            $crate::cleaner::coverage::covers!(),
            " WHERE c.outbox::oid = ANY($1)"
        )
    };
}
pub(super) use marks_of_passed;

/// Who covers these tables, in the order of slot and table.
pub async fn load(client: &Client, tables: &[u32], slot: &str) -> Result<Vec<Cover>, Error> {
    const SQL: &str = concat!(
        "SELECT c.slot, ",
        mark!(),
        ", p.generation::text, c.outbox::oid, c.since::text, p.position, ",
        is_here!(),
        ", ",
        is_published!(),
        " ",
        covers!(),
        " WHERE c.outbox::oid = ANY($1) ORDER BY c.slot COLLATE \"C\", c.outbox::oid"
    );
    let read = |row: &tokio_postgres::Row| {
        let since: String = row.try_get(4)?;
        let position: PgLsn = row.try_get(5)?;
        Ok(Cover {
            slot: row.try_get(0)?,
            mark: row.try_get(1)?,
            generation: row.try_get(2)?,
            outbox: row.try_get(3)?,
            // What can't be read is behind everything.
            since: since.parse().unwrap_or(u64::MAX),
            position: Lsn::new(position.into()),
            is_here: row.try_get(6)?,
            is_published: row.try_get(7)?,
        })
    };
    client.query(SQL, &[&tables, &slot]).await?.iter().map(read).collect()
}

/// Where the log ends, what is not written out included: rows of asynchronous commits can be seen
/// before they are.
pub async fn log_end(client: &Client) -> Result<Lsn, Error> {
    let row = client.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?;
    Ok(Lsn::new(row.try_get::<_, PgLsn>(0)?.into()))
}
