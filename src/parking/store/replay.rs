//! What `postrider replay` reads and writes.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, Row, Transaction};

use super::dead::{conditions, matching};
use super::{ParkedRow, live, lock, promote, record_columns};
use crate::parking::filter::Filter;
use postrider_core::delivery::Refusal;
use postrider_core::order::OrderKey;
use postrider_core::parking::shortened;

/// The end of what a run covers: events that are parked later are left to the next one.
pub(crate) async fn newest_id(client: &Client) -> Result<i64, Error> {
    let sql = "SELECT coalesce(max(id), 0) FROM postrider.undelivered";
    client.query_one(sql, &[]).await?.try_get(0)
}

/// Dead events of one topic and reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct DeadCount {
    /// Where they go.
    pub topic: String,
    /// Why they are dead.
    pub reason: String,
    /// False: no record could be made of their rows.
    pub publishable: bool,
    /// How many.
    pub events: u64,
}

/// What a filter finds among the dead events.
pub(crate) async fn dead_counts(
    client: &Client,
    slot: &str,
    filter: &Filter,
    newest: i64,
) -> Result<Vec<DeadCount>, Error> {
    const SQL: &str = concat!(
        "SELECT topic, reason, form <> 'fragment', count(*) FROM \
           (SELECT u.topic, u.reason, u.form FROM postrider.undelivered u WHERE ",
        matching!(),
        " AND u.status = 'dead' AND u.id <= $10 \
             ORDER BY u.commit_lsn, u.change_lsn, u.ordinal, u.id LIMIT $11) found \
          GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2"
    );
    let limit = filter.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let mut values = conditions(&slot, filter);
    values.extend([&newest as &(dyn ToSql + Sync), &limit]);
    let count = |row: &Row| {
        Ok(DeadCount {
            topic: row.try_get(0)?,
            reason: row.try_get(1)?,
            publishable: row.try_get(2)?,
            events: row.try_get::<_, i64>(3)?.unsigned_abs(),
        })
    };
    client.query(SQL, &values).await?.iter().map(count).collect()
}

/// Where a dead event is: in the log, and in the side table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadPosition {
    /// Where its transaction was committed.
    pub commit_lsn: u64,
    /// Where its own change is.
    pub change_lsn: u64,
    /// Its number there.
    pub ordinal: i64,
    /// Its id.
    pub id: i64,
    /// The length of its value.
    pub value_bytes: usize,
    /// No record could be made of its row.
    pub is_fragment: bool,
}

impl DeadPosition {
    /// Sorts before all others.
    pub(crate) const START: Self = DeadPosition {
        commit_lsn: 0,
        change_lsn: 0,
        ordinal: -1,
        id: 0,
        value_bytes: 0,
        is_fragment: false,
    };
}

/// The next dead events in the order of the log, at most `limit`.
pub(crate) async fn dead_positions(
    client: &Client,
    slot: &str,
    filter: &Filter,
    newest: i64,
    after: DeadPosition,
    limit: usize,
) -> Result<Vec<DeadPosition>, Error> {
    const SQL: &str = concat!(
        "SELECT u.commit_lsn, u.change_lsn, u.ordinal, u.id, u.value_bytes, u.form = 'fragment' \
           FROM postrider.undelivered u WHERE ",
        matching!(),
        " AND u.status = 'dead' AND u.id <= $10 \
          AND (u.commit_lsn, u.change_lsn, u.ordinal, u.id) > ($11, $12, $13, $14) \
          ORDER BY u.commit_lsn, u.change_lsn, u.ordinal, u.id LIMIT $15"
    );
    let (commit_lsn, change_lsn) = (PgLsn::from(after.commit_lsn), PgLsn::from(after.change_lsn));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values = conditions(&slot, filter);
    values.extend([&newest as &(dyn ToSql + Sync), &commit_lsn, &change_lsn]);
    values.extend([&after.ordinal as &(dyn ToSql + Sync), &after.id, &limit]);
    let position = |row: &Row| {
        Ok(DeadPosition {
            commit_lsn: row.try_get::<_, PgLsn>(0)?.into(),
            change_lsn: row.try_get::<_, PgLsn>(1)?.into(),
            ordinal: row.try_get(2)?,
            id: row.try_get(3)?,
            value_bytes: usize::try_from(row.try_get::<_, i64>(4)?).unwrap_or_default(),
            is_fragment: row.try_get(5)?,
        })
    };
    client.query(SQL, &values).await?.iter().map(position).collect()
}

/// The slot's confirmed position, if the slot exists. To be read before the rows, so that rows
/// parked before this position was confirmed are seen.
pub(crate) async fn confirmed_lsn(client: &Client, slot: &str) -> Result<Option<u64>, Error> {
    let sql = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1";
    let row = client.query_opt(sql, &[&slot]).await?;
    let lsn: Option<PgLsn> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    Ok(lsn.map(u64::from))
}

/// A dead event that is ours until the end of the transaction.
#[derive(Debug)]
pub(crate) struct DeadRow {
    /// What is needed to publish it.
    pub row: ParkedRow,
    /// Where its transaction was committed.
    pub commit_lsn: u64,
    /// Identifies what it keeps its order with, if anything.
    pub key_id: Option<String>,
}

/// Locks those that are still dead and that no other command has locked, in the order of the log.
pub(crate) async fn lock_dead(tx: &Transaction<'_>, ids: &[i64]) -> Result<Vec<DeadRow>, Error> {
    const SQL: &str = concat!(
        "SELECT ",
        record_columns!(),
        ", commit_lsn, key_id::text AS key_id FROM postrider.undelivered \
          WHERE id = ANY($1) AND status = 'dead' AND form <> 'fragment' \
          ORDER BY commit_lsn, change_lsn, ordinal, id FOR UPDATE SKIP LOCKED"
    );
    let rows = tx.query(SQL, &[&ids]).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<DeadRow, Error> {
    Ok(DeadRow {
        row: ParkedRow::read(row)?,
        commit_lsn: row.try_get::<_, PgLsn>("commit_lsn")?.into(),
        key_id: row.try_get("key_id")?,
    })
}

/// Those of the rows that have a key and are at its front, after nothing but others of these rows
/// and the rows in `published`: ids, with their keys, of rows that are published but perhaps not
/// marked yet.
pub(crate) async fn front_rows(
    tx: &Transaction<'_>,
    slot: &str,
    rows: &[DeadRow],
    published: &HashMap<i64, String>,
) -> Result<HashSet<i64>, Error> {
    // For each key, as many rows as there are here: no more of them can be at its front.
    const SQL: &str = concat!(
        "SELECT k.place, f.id \
           FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k(key_id, rows, place) \
          CROSS JOIN LATERAL \
           (SELECT u.id, u.commit_lsn, u.change_lsn, u.ordinal FROM postrider.undelivered u \
             WHERE u.slot = $1 AND u.key_id = k.key_id::uuid AND u.status IN ",
        live!(),
        "    ORDER BY u.commit_lsn, u.change_lsn, u.ordinal, u.id LIMIT k.rows) f \
          ORDER BY k.place, f.commit_lsn, f.change_lsn, f.ordinal, f.id"
    );
    let mut by_key: HashMap<&str, i64> = HashMap::new();
    for key_id in rows.iter().filter_map(|row| row.key_id.as_deref()) {
        *by_key.entry(key_id).or_default() += 1;
    }
    if by_key.is_empty() {
        return Ok(HashSet::new());
    }
    for key_id in published.values() {
        by_key.entry(key_id).and_modify(|rows| *rows += 1);
    }
    let here: HashSet<i64> = rows.iter().map(|row| row.row.id).collect();
    let (keys, counts): (Vec<&str>, Vec<i64>) = by_key.into_iter().unzip();
    let mut front = HashSet::with_capacity(here.len());
    let mut ended = None;
    for row in tx.query(SQL, &[&slot, &keys, &counts]).await? {
        let (place, id): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if ended == Some(place) || published.contains_key(&id) {
            continue;
        }
        if here.contains(&id) {
            front.insert(id);
        } else {
            ended = Some(place);
        }
    }
    Ok(front)
}

/// A row that failed again.
#[derive(Debug)]
pub(crate) struct FailedAgain<'a> {
    /// The row.
    pub row: &'a ParkedRow,
    /// Why.
    pub refusal: &'a Refusal,
}

/// Records what became of rows, releases those that waited for the delivered ones, and counts. The
/// caller commits.
pub(crate) async fn settle_replayed(
    tx: &Transaction<'_>,
    slot: &str,
    delivered: &[&ParkedRow],
    failed: &[FailedAgain<'_>],
) -> Result<(), Error> {
    const DELIVERED: &str = "UPDATE postrider.undelivered \
           SET status = 'delivered', attempts = attempts + 1, delivered_at = clock_timestamp(), \
               updated_at = clock_timestamp() \
         WHERE id = ANY($1)";
    const FAILED: &str = "UPDATE postrider.undelivered u \
           SET attempts = u.attempts + 1, reason = f.reason, last_error = f.error, \
               updated_at = clock_timestamp() \
          FROM unnest($1::bigint[], $2::text[], $3::text[]) AS f(id, reason, error) \
         WHERE u.id = f.id";
    lock(tx, slot).await?;
    if !delivered.is_empty() {
        let ids: Vec<i64> = delivered.iter().map(|row| row.id).collect();
        tx.execute(DELIVERED, &[&ids]).await?;
        let keys: HashSet<OrderKey> = delivered.iter().filter_map(|row| row.order_key()).collect();
        promote(tx, slot, &keys.into_iter().collect::<Vec<_>>()).await?;
    }
    if !failed.is_empty() {
        let ids: Vec<i64> = failed.iter().map(|it| it.row.id).collect();
        let reasons: Vec<&str> = failed.iter().map(|it| it.refusal.reason.label()).collect();
        let errors: Vec<String> = failed.iter().map(|it| shortened(&it.refusal.detail)).collect();
        tx.execute(FAILED, &[&ids, &reasons, &errors]).await?;
    }
    let mut counts: HashMap<(&str, &str), i64> = HashMap::new();
    for row in delivered {
        *counts.entry((&row.topic, "success")).or_default() += 1;
    }
    for failed in failed {
        *counts.entry((&failed.row.topic, "failure")).or_default() += 1;
    }
    count_replayed(tx, &counts).await
}

/// A column that does not have a legal topic can have anything, also too much for an index.
async fn count_replayed(
    tx: &Transaction<'_>,
    counts: &HashMap<(&str, &str), i64>,
) -> Result<(), Error> {
    const SQL: &str = "INSERT INTO postrider.replayed AS r (topic, result, events) \
        SELECT CASE WHEN c.topic ~ '^[a-zA-Z0-9._-]{1,249}$' THEN c.topic ELSE '(illegal)' END, \
               c.result, sum(c.events)::bigint \
          FROM unnest($1::text[], $2::text[], $3::bigint[]) AS c(topic, result, events) \
         GROUP BY 1, 2 ORDER BY 1, 2 \
            ON CONFLICT (topic, result) DO UPDATE SET events = r.events + excluded.events";
    let topics: Vec<&str> = counts.keys().map(|(topic, _)| *topic).collect();
    let results: Vec<&str> = counts.keys().map(|(_, result)| *result).collect();
    let events: Vec<i64> = counts.values().copied().collect();
    tx.execute(SQL, &[&topics, &results, &events]).await?;
    Ok(())
}
