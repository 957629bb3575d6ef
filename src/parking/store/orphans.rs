//! Parked events of slots that are gone: nobody tries them any more, unless another slot takes them
//! over.

use tokio_postgres::{Client, Error, GenericClient};

use super::upkeep::left_waiting;
use super::{LOWEST_LSN, live, lock, promote};

/// Slots told apart; more than that is nobody's plan.
const ORPHANS_MAX: i64 = 1000;
/// Where rows wait to be rebased that have a place and no position. Beyond the end of every log.
const FAR: &str = "FFFFFFFE/0";

/// What is not done of a slot that does not exist any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    /// The slot's name.
    pub slot: String,
    /// How many events.
    pub events: u64,
}

impl Orphans {
    /// Says so, with the way out.
    fn warn(&self) {
        let Orphans { slot, events } = self;
        tracing::warn!(
            slot,
            events,
            "parked events belong to a slot that does not exist: nobody retries them, and later events \
             of their keys overtake them; `postrider dead take-over --from {slot}` gives them to this \
             relay's slot"
        );
    }
}

/// What was said. A slot is named when it is found, and again when it was found before and gone since.
#[derive(Debug, Default)]
pub struct ToldOrphans {
    slots: Vec<String>,
}

impl ToldOrphans {
    /// Says what is new.
    pub fn tell(&mut self, orphans: Vec<Orphans>) {
        orphans.iter().filter(|it| !self.slots.contains(&it.slot)).for_each(Orphans::warn);
        self.note(orphans);
    }

    /// This was said before.
    pub fn note(&mut self, orphans: Vec<Orphans>) {
        self.slots = orphans.into_iter().map(|orphans| orphans.slot).collect();
    }
}

/// Somebody publishes rows of the tables for the slot, and makes it: their lease is renewed every second. A
/// job that was broken off, and that nobody has touched for so long, may never be gone on with.
macro_rules! is_being_made {
    ($slot:literal) => {
        concat!(
            "EXISTS (SELECT FROM postrider.backfill b WHERE b.slot = ",
            $slot,
            " AND coalesce(b.held_until, b.began_at) > clock_timestamp() - interval '5 minutes')"
        )
    };
}

/// There is no such slot in this database, and nobody is about to make it.
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

/// Events of other slots that are gone, at the cost of the slots and of these events.
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

/// How often this slot has taken over events of another. A relay that sees it change has to read
/// again which keys are held.
pub async fn takeovers(client: &impl GenericClient, slot: &str) -> Result<i64, Error> {
    const SQL: &str =
        "SELECT coalesce((SELECT takeovers FROM postrider.progress WHERE slot = $1), 0)";
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// The relay holds the keys of all events that slot `$1` has taken over: until then, what it publishes
/// could come in between.
macro_rules! takeovers_are_known {
    () => {
        "NOT EXISTS (SELECT FROM postrider.progress \
                      WHERE slot = $1 AND takeovers_known < takeovers)"
    };
}
pub(super) use takeovers_are_known;

/// Whether it does, or nobody streams: whoever begins reads the keys first. To be asked after rows were
/// read: none that was taken over later is among them.
pub async fn knows_takeovers(client: &impl GenericClient, slot: &str) -> Result<bool, Error> {
    const SQL: &str = concat!(
        "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active) OR ",
        takeovers_are_known!()
    );
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// The relay knows the keys of the events that were taken over by then: these may leave.
pub async fn know_takeovers(client: &Client, slot: &str, takeovers: i64) -> Result<(), Error> {
    const SQL: &str = "UPDATE postrider.progress SET takeovers_known = $2 \
        WHERE slot = $1 AND takeovers_known < $2";
    client.execute(SQL, &[&slot, &takeovers]).await?;
    Ok(())
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// So many events that are not done belong to the other slot now, or would.
    Taken(u64),
    /// The slot still exists.
    Exists,
    /// The slot is being made again.
    BeingMade,
    /// The slot that is to have them does not exist.
    NoHeir,
}

/// What would come of it.
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
        // Whoever is named as the heir goes on with what was broken off.
        ", EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $2 \
                     AND database = current_database()) \
             OR EXISTS (SELECT FROM postrider.backfill WHERE slot = $2)"
    );
    let row = client.query_one(SQL, &[&from, &to]).await?;
    match (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?) {
        (false, true, _) => Ok(TakeOver::BeingMade),
        (false, false, _) => Ok(TakeOver::Exists),
        (true, _, false) => Ok(TakeOver::NoHeir),
        (true, _, true) => Ok(TakeOver::Taken(row.try_get::<_, i64>(0)?.unsigned_abs())),
    }
}

/// Gives all events of a slot that is gone to another one. Their positions are of the same log, so
/// they stand where they belong among its own; what comes from elsewhere is rebased by the relay, which
/// reads its keys again.
pub async fn take_over(client: &mut Client, from: &str, to: &str) -> Result<TakeOver, Error> {
    // The same event parked by both: the new slot's row knows what became of it. Tries to read a table
    // are counted by slot, so of a row without an id they don't say that it is the same.
    const TWICE: &str = "DELETE FROM postrider.undelivered o USING postrider.undelivered n \
         WHERE o.slot = $1 AND n.slot = $2 AND o.commit_lsn >= $3::text::pg_lsn \
           AND n.source_table = o.source_table AND n.commit_lsn = o.commit_lsn \
           AND n.change_lsn = o.change_lsn AND n.ordinal = o.ordinal \
           AND n.row_id IS NOT DISTINCT FROM o.row_id \
           AND (o.row_id IS NOT NULL OR o.change_lsn = '0/0' OR o.change_lsn >= $3::text::pg_lsn) \
           AND coalesce(n.system_identifier, '') = coalesce(o.system_identifier, '')";
    // Places below every log's positions were given by slot, so they may be taken here.
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
