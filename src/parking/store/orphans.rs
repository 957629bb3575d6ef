//! Parked events of slots that are gone: they are not retried any more, unless another slot takes
//! them over.

use tokio_postgres::{Client, Error, GenericClient};

use super::upkeep::left_waiting;
use super::{LOWEST_LSN, live, lock, promote};
use postrider_core::parking::Orphans;

/// Slots listed separately. Nobody needs more.
const ORPHANS_MAX: i64 = 1000;
/// The base of positions for rows that have no position in this log, until they are rebased. Beyond
/// the end of every log.
const FAR: &str = "FFFFFFFE/0";

/// What was logged. A slot is logged when it is found, and again if it had disappeared in between.
#[derive(Debug, Default)]
pub(crate) struct LoggedOrphans {
    slots: Vec<String>,
}

impl LoggedOrphans {
    /// Logs what is new.
    pub(crate) fn log_new(&mut self, orphans: Vec<Orphans>) {
        orphans.iter().filter(|it| !self.slots.contains(&it.slot)).for_each(warn);
        self.note(orphans);
    }

    /// Notes what was logged before.
    pub(crate) fn note(&mut self, orphans: Vec<Orphans>) {
        self.slots = orphans.into_iter().map(|orphans| orphans.slot).collect();
    }
}

/// Logs them, with the command that takes them over.
fn warn(orphans: &Orphans) {
    let Orphans { slot, events } = orphans;
    tracing::warn!(
        slot,
        events,
        "parked events belong to a slot that does not exist: nobody retries them, and later \
         events of their keys overtake them; `postrider dead take-over --from {slot}` assigns \
         them to this relay's slot"
    );
}

/// An instance publishes rows of the tables for the slot, and creates it: its lease is renewed
/// every second. A job that was interrupted, and was not touched for this long, may never be
/// continued.
macro_rules! is_being_made {
    ($slot:literal) => {
        concat!(
            "EXISTS (SELECT FROM postrider.backfill b WHERE b.slot = ",
            $slot,
            " AND coalesce(b.held_until, b.began_at) > clock_timestamp() - interval '5 minutes')"
        )
    };
}

/// The slot does not exist in this database, and nobody is about to create it.
macro_rules! is_gone {
    ($slot:literal) => {
        concat!(
            "NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.slot_name = ",
            $slot,
            " AND r.database = current_database()) AND NOT ",
            $crate::parking::store::is_being_made!($slot)
        )
    };
}

pub(crate) use {is_being_made, is_gone};

/// Events of other slots that are gone. The cost depends on the number of slots and of these
/// events.
pub async fn orphans(client: &impl GenericClient, slot: &str) -> Result<Vec<Orphans>, Error> {
    const SQL: &str = concat!(
        "WITH RECURSIVE s AS ( \
           (SELECT slot FROM postrider.undelivered WHERE status IN ",
        live!(),
        "    ORDER BY slot LIMIT 1) \
           UNION ALL \
           SELECT n.slot FROM s CROSS JOIN LATERAL \
           (SELECT u.slot FROM postrider.undelivered u \
             WHERE u.slot > s.slot AND u.status IN ",
        live!(),
        "    ORDER BY u.slot LIMIT 1) n) \
         SELECT s.slot, (SELECT count(*) FROM postrider.undelivered u \
                          WHERE u.slot = s.slot AND u.status IN ",
        live!(),
        ") FROM s WHERE s.slot <> $1 AND ",
        is_gone!("s.slot"),
        " LIMIT $2"
    );
    let rows = client.query(SQL, &[&slot, &ORPHANS_MAX]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(Orphans { slot: row.try_get(0)?, events: row.try_get::<_, i64>(1)?.unsigned_abs() })
    };
    rows.iter().map(read).collect()
}

/// How often this slot has taken over events of another slot. When that changes, the relay has to
/// read again which keys are held.
pub async fn takeovers(client: &impl GenericClient, slot: &str) -> Result<i64, Error> {
    const SQL: &str =
        "SELECT coalesce((SELECT takeovers FROM postrider.progress WHERE slot = $1), 0)";
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// The relay holds the keys of all events that slot `$1` has taken over: until then, its later
/// events could overtake them.
macro_rules! takeovers_are_known {
    () => {
        "NOT EXISTS (SELECT FROM postrider.progress \
                      WHERE slot = $1 AND takeovers_known < takeovers)"
    };
}
pub(super) use takeovers_are_known;

/// Whether it does, or the slot is not in use: a relay that begins reads the keys first. To be
/// called after rows were read, so that none that was taken over later is among them.
pub(crate) async fn knows_takeovers(
    client: &impl GenericClient,
    slot: &str,
) -> Result<bool, Error> {
    const SQL: &str = concat!(
        "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active) OR ",
        takeovers_are_known!()
    );
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// The relay knows the keys of the events that were taken over by then, so these may be published.
pub(crate) async fn know_takeovers(
    client: &Client,
    slot: &str,
    takeovers: i64,
) -> Result<(), Error> {
    const SQL: &str = "UPDATE postrider.progress SET takeovers_known = $2 \
        WHERE slot = $1 AND takeovers_known < $2";
    client.execute(SQL, &[&slot, &takeovers]).await?;
    Ok(())
}

/// The result of a take-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// This many unfinished events belong to the other slot now, or would.
    Taken(u64),
    /// The slot still exists.
    Exists,
    /// The slot is being recreated.
    BeingCreated,
    /// The slot that would receive them does not exist.
    NoTargetSlot,
}

/// What the result of a take-over would be.
pub async fn plan_take_over(
    client: &impl GenericClient,
    from: &str,
    to: &str,
) -> Result<TakeOver, Error> {
    const SQL: &str = concat!(
        "SELECT (SELECT count(*) FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!(),
        "), ",
        is_gone!("$1"),
        ", ",
        is_being_made!("$1"),
        // A slot that has a backfill job can receive events too: it is created when the job
        // continues.
        ", EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $2 \
                     AND database = current_database()) \
             OR EXISTS (SELECT FROM postrider.backfill WHERE slot = $2)"
    );
    let row = client.query_one(SQL, &[&from, &to]).await?;
    match (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?) {
        (false, true, _) => Ok(TakeOver::BeingCreated),
        (false, false, _) => Ok(TakeOver::Exists),
        (true, _, false) => Ok(TakeOver::NoTargetSlot),
        (true, _, true) => Ok(TakeOver::Taken(row.try_get::<_, i64>(0)?.unsigned_abs())),
    }
}

/// Assigns all events of a slot that is gone to another slot. Their positions are in the same log,
/// so they sort correctly among its own; events from other servers are rebased by the relay, which
/// then reads its keys again.
pub async fn take_over(client: &mut Client, from: &str, to: &str) -> Result<TakeOver, Error> {
    // The same event parked by both: the new slot's row has the result. Attempts to read a table
    // are counted per slot, so for a row without an id they do not prove that it is the same row.
    const TWICE: &str = "DELETE FROM postrider.undelivered o USING postrider.undelivered n \
         WHERE o.slot = $1 AND n.slot = $2 AND o.commit_lsn >= $3::text::pg_lsn \
           AND n.source_table = o.source_table AND n.commit_lsn = o.commit_lsn \
           AND n.change_lsn = o.change_lsn AND n.ordinal = o.ordinal \
           AND n.row_id IS NOT DISTINCT FROM o.row_id \
           AND (o.row_id IS NOT NULL OR o.change_lsn = '0/0' OR o.change_lsn >= $3::text::pg_lsn) \
           AND coalesce(n.system_identifier, '') = coalesce(o.system_identifier, '')";
    // Positions below those of every log were assigned per slot, so they may be occupied here.
    const MOVE: &str = concat!(
        "WITH moved AS (UPDATE postrider.undelivered \
            SET slot = $2, updated_at = clock_timestamp(), \
                commit_lsn = CASE WHEN commit_lsn >= $3::text::pg_lsn THEN commit_lsn \
                    ELSE (SELECT greatest(max(n.commit_lsn), $4::text::pg_lsn) \
                            FROM postrider.undelivered n \
                           WHERE n.slot = $2 AND n.commit_lsn >= $4::text::pg_lsn) \
                         + (commit_lsn - '0/0'::pg_lsn) END \
          WHERE slot = $1 RETURNING status) \
         SELECT count(*) FROM moved WHERE status IN ",
        live!()
    );
    const NOTE: &str = "UPDATE postrider.progress SET takeovers = takeovers + 1 WHERE slot = $1";
    let tx = client.transaction().await?;
    for slot in [from.min(to), from.max(to)] {
        lock(&tx, slot).await?;
    }
    match plan_take_over(&tx, from, to).await? {
        TakeOver::Taken(_) => {}
        refused => return Ok(refused),
    }
    tx.execute(TWICE, &[&from, &to, &LOWEST_LSN]).await?;
    let moved: i64 = tx.query_one(MOVE, &[&from, &to, &LOWEST_LSN, &FAR]).await?.try_get(0)?;
    tx.execute(NOTE, &[&to]).await?;
    let left = left_waiting(&tx, to).await?;
    promote(&tx, to, &left).await?;
    tx.commit().await?;
    Ok(TakeOver::Taken(moved.unsigned_abs()))
}
