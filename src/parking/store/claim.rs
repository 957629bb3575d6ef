//! Claims the rows of the side table that are due, each for one instance.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Error, Row, Transaction};

use super::orphans::takeovers_are_known;
use super::{ParkedRow, first_of_key, live, record_columns};
use crate::config::Order;
use postrider_core::parking::Completeness;

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Something can be claimed.
    pub events: bool,
    /// A lease has ended.
    pub leases: bool,
    /// See [`takeovers`](crate::parking::store::takeovers).
    pub takeovers: i64,
}

/// Checks, at the cost of two index lookups, whether there is anything to do.
pub async fn due(client: &Client, slot: &str) -> Result<Due, Error> {
    // Ordered, so that the planner uses the indexes whatever the statistics.
    const SQL: &str = "SELECT \
        coalesce((SELECT next_attempt_at <= now() FROM postrider.undelivered \
                   WHERE slot = $1 AND status = 'pending' ORDER BY next_attempt_at LIMIT 1), false), \
        coalesce((SELECT locked_until < now() FROM postrider.undelivered \
                   WHERE slot = $1 AND status = 'processing' ORDER BY locked_until LIMIT 1), false), \
        coalesce((SELECT takeovers FROM postrider.progress WHERE slot = $1), 0)";
    let row = client.query_one(SQL, &[&slot]).await?;
    Ok(Due { events: row.try_get(0)?, leases: row.try_get(1)?, takeovers: row.try_get(2)? })
}

/// What to claim, and for whom.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    /// The slot whose events are claimed.
    pub slot: &'a str,
    /// The instance that claims them.
    pub owner: &'a str,
    /// At most this many.
    pub batch: usize,
    /// Not more bytes of values than this, unless the first alone has more.
    pub bytes_max: usize,
    /// For how long.
    pub lease: Duration,
    /// Whether events of one key wait for each other.
    pub order: Order,
}

/// Claims what is due, the longest waiting first. Rows of one key come in the order of the log;
/// after the first of a key come those that waited for it, up to one that can't be claimed.
pub async fn claim(client: &mut Client, want: &Claim<'_>) -> Result<Vec<ParkedRow>, Error> {
    let tx = client.transaction().await?;
    // Alone and first: rows parked before this position was confirmed are then seen by every later
    // statement. Read together with the rows, it could be newer than what they show.
    const CONFIRMED: &str = concat!(
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1 AND ",
        takeovers_are_known!()
    );
    let confirmed = tx.query_opt(CONFIRMED, &[&want.slot]).await?;
    let Some(confirmed) = confirmed.map(|row| row.try_get(0)).transpose()?.flatten() else {
        return Ok(Vec::new());
    };
    let heads = lock_heads(&tx, want, confirmed).await?;
    let claimed = match want.order {
        Order::Continue => heads,
        Order::ParkKey | Order::ParkTopic | Order::Halt => {
            with_followers(&tx, want, confirmed, heads).await?
        }
    };
    if claimed.is_empty() {
        return Ok(Vec::new());
    }
    let rows = mark_claimed(&tx, want, &claimed).await?;
    tx.commit().await?;
    Ok(rows)
}

/// A row that can be claimed, if it is locked.
struct Claimable {
    id: i64,
    value_bytes: usize,
    key_id: Option<String>,
}

impl Claimable {
    fn read(row: &Row) -> Result<Self, Error> {
        let bytes: i64 = row.try_get("value_bytes")?;
        Ok(Claimable {
            id: row.try_get("id")?,
            value_bytes: usize::try_from(bytes).unwrap_or_default(),
            key_id: row.try_get("key_id")?,
        })
    }
}

/// Rows that wait for no other, locked; those that others have locked are skipped.
async fn lock_heads(
    tx: &Transaction<'_>,
    want: &Claim<'_>,
    confirmed: PgLsn,
) -> Result<Vec<Claimable>, Error> {
    const SQL: &str = concat!(
        "SELECT u.id, u.value_bytes, u.key_id::text AS key_id \
           FROM postrider.undelivered u \
          WHERE u.slot = $1 AND u.status = 'pending' AND u.next_attempt_at <= now() \
            AND u.next_attempt_at < 'infinity' AND u.form <> 'fragment' AND u.commit_lsn < $2 \
            AND ($3 OR u.key_id IS NULL OR u.id = ",
        first_of_key!(),
        ") ORDER BY u.created_at, u.id LIMIT $4 FOR UPDATE OF u SKIP LOCKED"
    );
    let overtake = want.order == Order::Continue;
    let batch = i64::try_from(want.batch).unwrap_or(i64::MAX);
    let rows = tx.query(SQL, &[&want.slot, &confirmed, &overtake, &batch]).await?;
    let mut limit = BatchLimit { rows: want.batch, bytes: want.bytes_max, is_empty: true };
    let mut heads = Vec::new();
    for row in &rows {
        let row = Claimable::read(row)?;
        if !limit.admit(&row) {
            break;
        }
        heads.push(row);
    }
    Ok(heads)
}

/// What a batch can still hold. The first row always fits.
struct BatchLimit {
    rows: usize,
    bytes: usize,
    is_empty: bool,
}

impl BatchLimit {
    fn admit(&mut self, row: &Claimable) -> bool {
        let fits = self.rows > 0 && (self.is_empty || row.value_bytes <= self.bytes);
        if fits {
            self.rows -= 1;
            self.bytes = self.bytes.saturating_sub(row.value_bytes);
            self.is_empty = false;
        }
        fits
    }
}

/// Each head, followed by the rows that waited for it.
async fn with_followers(
    tx: &Transaction<'_>,
    want: &Claim<'_>,
    confirmed: PgLsn,
    heads: Vec<Claimable>,
) -> Result<Vec<Claimable>, Error> {
    let mut limit = BatchLimit { rows: want.batch, bytes: want.bytes_max, is_empty: true };
    for head in &heads {
        limit.admit(head);
    }
    let ids: Vec<i64> =
        heads.iter().filter(|head| head.key_id.is_some()).map(|head| head.id).collect();
    if ids.is_empty() || limit.rows == 0 || limit.bytes == 0 {
        return Ok(heads);
    }
    // Each key gets its share: more could not be claimed if all keys had that many.
    let share = limit.rows.div_ceil(ids.len());
    let mut followers = followers(tx, want, confirmed, &ids, share).await?;
    let candidates: Vec<i64> = followers.values().flatten().map(|row| row.id).collect();
    let free = lock_unlocked(tx, &candidates).await?;
    let mut claimed = Vec::with_capacity(heads.len() + candidates.len());
    for head in heads {
        let run = followers.remove(&head.id).unwrap_or_default();
        claimed.push(head);
        for row in run {
            // A row that another instance has locked ends the run: nothing may overtake it.
            if !free.contains(&row.id) || !limit.admit(&row) {
                break;
            }
            claimed.push(row);
        }
    }
    Ok(claimed)
}

/// By head: the rows after it, up to the first that must not be claimed.
async fn followers(
    tx: &Transaction<'_>,
    want: &Claim<'_>,
    confirmed: PgLsn,
    heads: &[i64],
    limit: usize,
) -> Result<HashMap<i64, Vec<Claimable>>, Error> {
    const SQL: &str = concat!(
        "SELECT head.id AS head, f.* \
           FROM postrider.undelivered head CROSS JOIN LATERAL \
           (SELECT u.id, u.value_bytes, u.key_id::text AS key_id, \
                   u.commit_lsn, u.change_lsn, u.ordinal, \
                   u.status = 'pending' AND u.form <> 'fragment' AND u.commit_lsn < $2 \
                     AND (u.next_attempt_at <= now() OR u.next_attempt_at = 'infinity') AS ready \
              FROM postrider.undelivered u \
             WHERE u.slot = $1 AND u.key_id = head.key_id AND u.status IN ",
        live!(),
        "      AND (u.commit_lsn, u.change_lsn, u.ordinal, u.id) \
                   > (head.commit_lsn, head.change_lsn, head.ordinal, head.id) \
             ORDER BY u.commit_lsn, u.change_lsn, u.ordinal, u.id LIMIT $3) f \
          WHERE head.id = ANY($4) ORDER BY head.id, f.commit_lsn, f.change_lsn, f.ordinal, f.id"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = tx.query(SQL, &[&want.slot, &confirmed, &limit, &heads]).await?;
    let mut runs: HashMap<i64, Vec<Claimable>> = HashMap::new();
    let mut ended = HashSet::new();
    for row in &rows {
        let head: i64 = row.try_get("head")?;
        // `ready` is never NULL: none of its columns can be.
        if ended.contains(&head) || !row.try_get::<_, bool>("ready")? {
            ended.insert(head);
            continue;
        }
        runs.entry(head).or_default().push(Claimable::read(row)?);
    }
    Ok(runs)
}

/// Locks those that no other instance has locked.
async fn lock_unlocked(tx: &Transaction<'_>, ids: &[i64]) -> Result<HashSet<i64>, Error> {
    const SQL: &str = "SELECT id FROM postrider.undelivered \
        WHERE id = ANY($1) AND status = 'pending' FOR UPDATE SKIP LOCKED";
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = tx.query(SQL, &[&ids]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// The attempt is counted here, so that an event that kills its instance is counted too.
async fn mark_claimed(
    tx: &Transaction<'_>,
    want: &Claim<'_>,
    claimed: &[Claimable],
) -> Result<Vec<ParkedRow>, Error> {
    const SQL: &str = concat!(
        "UPDATE postrider.undelivered \
            SET status = 'processing', attempts = attempts + 1, next_attempt_at = now(), \
                locked_by = $1, \
                locked_until = now() + $2 * interval '1 second', updated_at = clock_timestamp() \
          WHERE id = ANY($3) RETURNING ",
        record_columns!()
    );
    let ids: Vec<i64> = claimed.iter().map(|row| row.id).collect();
    let rows = tx.query(SQL, &[&want.owner, &want.lease.as_secs_f64(), &ids]).await?;
    let mut by_id = HashMap::with_capacity(rows.len());
    for row in rows {
        let row = ParkedRow::read(&row)?;
        by_id.insert(row.id, row);
    }
    Ok(ids.iter().filter_map(|id| by_id.remove(id)).collect())
}

impl ParkedRow {
    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        let completeness = match row.try_get("form")? {
            "whole" => Completeness::Whole,
            "reference" => Completeness::Reference,
            _ => Completeness::Fragment,
        };
        let schema: Option<&str> = row.try_get("schema_to_find")?;
        Ok(ParkedRow {
            id: row.try_get("id")?,
            source_table: row.try_get("source_table")?,
            row_id: row.try_get("row_id")?,
            idempotency_key: row.try_get("idempotency_key")?,
            tenant: row.try_get("tenant")?,
            ordering_key: row.try_get("ordering_key")?,
            topic: row.try_get("topic")?,
            partition: row.try_get("partition")?,
            whole_topic: row.try_get("whole_topic")?,
            key: row.try_get("key")?,
            partition_by: row.try_get("partition_by")?,
            // One that somebody has changed by hand is as good as none: the record then shows it.
            schema: schema.and_then(|json| serde_json::from_str(json).ok()),
            adds_committed_at: row.try_get("adds_committed_at")?,
            value: row.try_get("value")?,
            value_bytes: usize::try_from(row.try_get::<_, i64>("value_bytes")?).unwrap_or_default(),
            headers: row.try_get("headers")?,
            commit_unix_micros: row.try_get("commit_unix_micros")?,
            completeness,
            attempts: u32::try_from(row.try_get::<_, i32>("attempts")?).unwrap_or_default(),
        })
    }
}
