//! What is done to the side table now and then.

use std::time::Duration;

use tokio_postgres::{Client, Error, GenericClient};

use super::home::is_past;
use super::keys;
use super::{Live, Orphans, live, live_total, lock, orphans, promote};
use crate::config::Order;
use postrider_core::parking::OrderKey;

/// Keys mended at a time.
const SWEEP_KEYS_MAX: i64 = 1000;
/// Topics told apart; the rest is beyond what metrics can show.
const COUNTED_MAX: i64 = 10_000;

/// Makes rows due that wait behind nothing: somebody changed rows by hand, or the order was
/// configured anew. Gives back how many keys it found.
pub async fn sweep(client: &mut Client, slot: &str, order: Order) -> Result<usize, Error> {
    const ALL: &str = "UPDATE postrider.undelivered SET next_attempt_at = now() \
        WHERE slot = $1 AND status = 'pending' AND next_attempt_at = 'infinity' \
          AND ($2 OR key_id IS NULL)";
    client.execute(ALL, &[&slot, &(order == Order::Continue)]).await?;
    // Looked for without the lock, so that nobody waits for a long look.
    let left = left_waiting(client, slot).await?;
    if !left.is_empty() {
        let tx = client.transaction().await?;
        lock(&tx, slot).await?;
        promote(&tx, slot, &left).await?;
        tx.commit().await?;
    }
    Ok(left.len())
}

/// Keys whose first row waits for a row that is gone, or that is not before it any more.
pub(super) async fn left_waiting(
    client: &impl GenericClient,
    slot: &str,
) -> Result<Vec<OrderKey>, Error> {
    const WAITS: &str = "SELECT EXISTS (SELECT FROM postrider.undelivered \
        WHERE slot = $1 AND status = 'pending' AND next_attempt_at = 'infinity')";
    const SQL: &str = concat!(
        keys::first_rows!(),
        "SELECT topic, ordering_key, partition, whole_topic FROM k \
          WHERE status = 'pending' AND next_attempt_at = 'infinity' LIMIT $2"
    );
    // Usually nothing does, however many keys there are.
    if !client.query_one(WAITS, &[&slot]).await?.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    keys::read(&client.query(SQL, &[&slot, &SWEEP_KEYS_MAX]).await?)
}

/// Deletes delivered rows that are older than the retention, at most `batch`; gives back how many.
/// What the slot has not confirmed may come again, and must then be found. Discarded rows may be needed
/// for longer: see [`clean_discarded`](crate::parking::store::clean_discarded).
pub async fn clean(
    client: &Client,
    slot: &str,
    retention: Duration,
    batch: usize,
) -> Result<usize, Error> {
    const SQL: &str = concat!(
        "DELETE FROM postrider.undelivered WHERE id = ANY(ARRAY( \
            SELECT u.id FROM postrider.undelivered u \
             WHERE u.slot = $1 AND u.status = 'delivered' \
               AND u.updated_at < now() - $2 * interval '1 second' AND ",
        is_past!(),
        " ORDER BY u.updated_at LIMIT $3 FOR UPDATE SKIP LOCKED))"
    );
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let deleted = client.execute(SQL, &[&slot, &retention.as_secs_f64(), &batch]).await?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

/// What is in the side table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// What is not done.
    pub live: Vec<LiveCount>,
    /// How much that is in all.
    pub total: Live,
    /// What `postrider replay` has done so far, whatever the slot.
    pub replayed: Vec<ReplayedCount>,
    /// What is not done of slots that are gone.
    pub orphans: Vec<Orphans>,
}

/// Rows of one table, topic and status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCount {
    /// The outbox table's name.
    pub source_table: String,
    /// The topic, or that it is none: what stands there then may be anything.
    pub topic: String,
    /// `pending`, `processing` or `dead`.
    pub status: String,
    /// How many.
    pub events: u64,
}

/// Events that were replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedCount {
    /// The topic.
    pub topic: String,
    /// `success` or `failure`.
    pub result: String,
    /// How many.
    pub events: u64,
}

/// Counts what is there.
pub async fn counts(client: &Client, slot: &str) -> Result<Counts, Error> {
    const LIVE: &str = concat!(
        "SELECT source_table, \
                CASE WHEN topic ~ '^[a-zA-Z0-9._-]{1,249}$' THEN topic ELSE '(illegal)' END, \
                status, sum(rows)::bigint \
           FROM (SELECT source_table, topic, status, count(*) AS rows \
                   FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!(),
        "         GROUP BY 1, 2, 3) AS told_apart \
          GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT $2"
    );
    const REPLAYED: &str = "SELECT topic, result, events FROM postrider.replayed \
        ORDER BY events DESC LIMIT $1";
    let mut counts = Counts { total: live_total(client, slot).await?, ..Counts::default() };
    for row in client.query(LIVE, &[&slot, &COUNTED_MAX]).await? {
        counts.live.push(LiveCount {
            source_table: row.try_get(0)?,
            topic: row.try_get(1)?,
            status: row.try_get(2)?,
            events: row.try_get::<_, i64>(3)?.unsigned_abs(),
        });
    }
    for row in client.query(REPLAYED, &[&COUNTED_MAX]).await? {
        counts.replayed.push(ReplayedCount {
            topic: row.try_get(0)?,
            result: row.try_get(1)?,
            events: row.try_get::<_, i64>(2)?.unsigned_abs(),
        });
    }
    counts.orphans = orphans(client, slot).await?;
    Ok(counts)
}
