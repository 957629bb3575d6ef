//! What is stored about the slots that cover a table.

use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Error};

use postrider_core::cleaning::rule::SlotCoverage;
use postrider_core::lsn::Lsn;

/// All coverages `c` of the tables `$1`, with their slots' progress `p` and that of our own slot
/// `$2`. A membership that was removed and added again has another OID, and so does a publication.
macro_rules! coverages {
    () => {
        "FROM postrider.coverage c JOIN postrider.progress p ON p.slot = c.slot \
         LEFT JOIN postrider.progress o ON o.slot = $2"
    };
}
pub(super) use coverages;

/// Slot, generation, table, membership, beginning.
macro_rules! fingerprint {
    () => {
        "concat_ws(' ', c.slot, p.generation, c.outbox::oid, c.membership, c.since)"
    };
}
pub(super) use fingerprint;

/// The position belongs to this server and its log: our own was compared with the log when the
/// session began. A position that can't be true stays stored until its slot is recovered.
macro_rules! is_here {
    () => {
        "coalesce(p.system_identifier = o.system_identifier \
                  AND p.position <= pg_current_wal_insert_lsn(), false)"
    };
}
pub(super) use is_here;

/// The table has been in the publication all the time, and still is. The statement that deletes
/// checks this, so the check is later than anything that it deletes.
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

/// The fingerprints of all coverages of the tables `$1`, in order, if all their slots have passed
/// `$3`.
macro_rules! fingerprint_of_passed {
    () => {
        concat!(
            "SELECT CASE WHEN bool_and(p.position >= $3 AND ",
            $crate::cleaner::coverage::is_here!(),
            " AND ",
            $crate::cleaner::coverage::is_published!(),
            ") THEN string_agg(",
            $crate::cleaner::coverage::fingerprint!(),
            ", ',' ORDER BY c.slot COLLATE \"C\", c.outbox::oid) END ",
            $crate::cleaner::coverage::coverages!(),
            " WHERE c.outbox::oid = ANY($1)"
        )
    };
}
pub(super) use fingerprint_of_passed;

/// What covers these tables, ordered by slot and table.
pub(crate) async fn load(
    client: &Client,
    tables: &[u32],
    slot: &str,
) -> Result<Vec<SlotCoverage>, Error> {
    const SQL: &str = concat!(
        "SELECT c.slot, ",
        fingerprint!(),
        ", p.generation::text, c.outbox::oid, c.since::text, p.position, ",
        is_here!(),
        ", ",
        is_published!(),
        " ",
        coverages!(),
        " WHERE c.outbox::oid = ANY($1) ORDER BY c.slot COLLATE \"C\", c.outbox::oid"
    );
    let read = |row: &tokio_postgres::Row| {
        let since: String = row.try_get(4)?;
        let position: PgLsn = row.try_get(5)?;
        Ok(SlotCoverage {
            slot: row.try_get(0)?,
            fingerprint: row.try_get(1)?,
            generation: row.try_get(2)?,
            outbox: row.try_get(3)?,
            // What can't be parsed counts as later than everything.
            since: since.parse().unwrap_or(u64::MAX),
            position: Lsn::new(position.into()),
            is_here: row.try_get(6)?,
            is_published: row.try_get(7)?,
        })
    };
    client.query(SQL, &[&tables, &slot]).await?.iter().map(read).collect()
}
