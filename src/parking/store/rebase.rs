//! Rows from another server: a row's position is one in the log of the server that parked it. When
//! a session opens, the rows themselves decide, not the command that brought them here.

use tokio_postgres::{Error, Transaction};

use super::{live, promote, upkeep};

/// The first position that a server's log can have: the first segment is never used. Rows that came
/// from another server get positions below it.
pub(crate) const LOWEST_LSN: &str = "0/1000000";

/// The event `u` of slot `$1` is never sent again: the slot has confirmed it, or its position is in
/// another server's log, or beyond the end of this one's.
macro_rules! is_past {
    () => {
        "(u.commit_lsn < coalesce((SELECT confirmed_flush_lsn FROM pg_replication_slots \
                                    WHERE slot_name = $1), 'FFFFFFFF/FFFFFFFF') \
          OR u.commit_lsn > pg_current_wal_insert_lsn() \
          OR u.system_identifier <> (SELECT p.system_identifier FROM postrider.progress p \
                                      WHERE p.slot = $1))"
    };
}
pub(super) use is_past;

/// Unfinished rows with positions in another server's log, or beyond the end of this one's, get
/// positions before everything that this slot has parked here, in the same order. Otherwise they
/// would wait for a position that the slot won't reach for years, and newer events would overtake
/// them. Returns how many there were. Requires the lock.
pub async fn rebase(
    tx: &Transaction<'_>,
    slot: &str,
    system_identifier: &str,
) -> Result<u64, Error> {
    // Rows without a system identifier are older than those with one, so they move too. So do rows
    // that were moved before: there must be space for all, in order. Servers are sorted by their
    // first parked row. Positions of finished rows stay occupied: the same event is the same row.
    const MOVE: &str = concat!(
        "WITH foreign_rows AS ( \
           SELECT id, commit_lsn, \
                  min(id) OVER (PARTITION BY coalesce(system_identifier, '')) AS first_id \
             FROM postrider.undelivered \
            WHERE slot = $1 AND status IN ",
        live!(),
        "     AND (system_identifier IS DISTINCT FROM $2 OR commit_lsn < $3::text::pg_lsn \
                   OR commit_lsn > pg_current_wal_insert_lsn())), \
         placed AS (SELECT id, dense_rank() OVER (ORDER BY first_id, commit_lsn) AS place \
                      FROM foreign_rows) \
         UPDATE postrider.undelivered u \
            SET commit_lsn = 'FFFFFFFF/0'::pg_lsn + p.place::numeric, system_identifier = $2 \
           FROM placed p WHERE u.id = p.id"
    );
    // In two steps: the unique index is checked row by row, and old positions are among the new
    // ones.
    const MOVE_INTO_PLACE: &str = concat!(
        "UPDATE postrider.undelivered \
            SET commit_lsn = coalesce((SELECT max(commit_lsn) FROM postrider.undelivered \
                                        WHERE slot = $1 AND status IN ('delivered', 'discarded') \
                                          AND commit_lsn < $2::text::pg_lsn), '0/0') \
                             + (commit_lsn - 'FFFFFFFF/0'::pg_lsn), \
                updated_at = clock_timestamp() \
          WHERE slot = $1 AND commit_lsn > 'FFFFFFFF/0' AND status IN ",
        live!()
    );
    // Logical replication copies rows without advancing the sequence, finished rows included.
    tx.execute("SELECT postrider.catch_up_ids()", &[]).await?;
    if !has_foreign_rows(tx, slot, system_identifier).await? {
        return Ok(0);
    }
    let moved = tx.execute(MOVE, &[&slot, &system_identifier, &LOWEST_LSN]).await?;
    tx.execute(MOVE_INTO_PLACE, &[&slot, &LOWEST_LSN]).await?;
    let stranded = upkeep::stranded_keys(tx, slot).await?;
    promote(tx, slot, &stranded).await?;
    Ok(moved)
}

/// Goes from server to server through the index, so its cost does not depend on the number of rows.
async fn has_foreign_rows(
    tx: &Transaction<'_>,
    slot: &str,
    system_identifier: &str,
) -> Result<bool, Error> {
    const SQL: &str = concat!(
        "WITH RECURSIVE servers AS ( \
           (SELECT whole_topic, coalesce(system_identifier, '') AS system \
              FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!(),
        "    ORDER BY whole_topic, coalesce(system_identifier, '') LIMIT 1) \
           UNION ALL \
           SELECT n.* FROM servers CROSS JOIN LATERAL \
           (SELECT u.whole_topic, coalesce(u.system_identifier, '') \
              FROM postrider.undelivered u \
             WHERE u.slot = $1 AND u.status IN ",
        live!(),
        "      AND (u.whole_topic, coalesce(u.system_identifier, '')) > (servers.whole_topic, servers.system) \
             ORDER BY u.whole_topic, coalesce(u.system_identifier, '') LIMIT 1) n) \
         SELECT coalesce(bool_or(system NOT IN ('', $2) OR newest.lsn > pg_current_wal_insert_lsn()), \
                         false) \
           FROM servers CROSS JOIN LATERAL \
           (SELECT max(u.commit_lsn) AS lsn FROM postrider.undelivered u \
             WHERE u.slot = $1 AND u.whole_topic = servers.whole_topic \
               AND coalesce(u.system_identifier, '') = servers.system AND u.status IN ",
        live!(),
        ") newest"
    );
    tx.query_one(SQL, &[&slot, &system_identifier]).await?.try_get(0)
}

/// Unfinished rows keep their order according to the current configuration. Requires the lock.
pub async fn rescope(tx: &Transaction<'_>, slot: &str, whole_topic: bool) -> Result<(), Error> {
    const SQL: &str = concat!(
        "UPDATE postrider.undelivered SET whole_topic = $2, updated_at = clock_timestamp() \
          WHERE slot = $1 AND whole_topic = NOT $2 AND status IN ",
        live!()
    );
    if tx.execute(SQL, &[&slot, &whole_topic]).await? > 0 {
        let stranded = upkeep::stranded_keys(tx, slot).await?;
        promote(tx, slot, &stranded).await?;
    }
    Ok(())
}
