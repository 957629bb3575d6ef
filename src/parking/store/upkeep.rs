//! Periodic work on the side table.

use crate::schema::StatusColumn;
use std::time::Duration;

use tokio_postgres::{Client, Error, GenericClient};

use super::keys;
use super::rebase::is_past;
use super::{live, live_total, lock, orphans, promote};
use crate::config::Order;
use postrider_core::order::OrderKey;
use postrider_core::parking::{Counts, LiveCount, ReplayedCount};

/// Keys released at a time.
const SWEEP_KEYS_MAX: i64 = 1000;
/// Rows of counts that are read; metrics can't show more.
const COUNTED_MAX: i64 = 10_000;

/// Makes rows due that wait for nothing: somebody changed rows by hand, or `undelivered.order` was
/// changed. Returns how many keys it found.
pub async fn sweep(client: &mut Client, slot: &str, order: Order) -> Result<usize, Error> {
    const ALL: &str = "UPDATE postrider.undelivered SET next_attempt_at = now() \
        WHERE slot = $1 AND status = 'pending' AND next_attempt_at = 'infinity' \
          AND ($2 OR key_id IS NULL)";
    client.execute(ALL, &[&slot, &(order == Order::Continue)]).await?;
    // Searched without the lock, so that nobody waits for a long search.
    let stranded = stranded_keys(client, slot).await?;
    if !stranded.is_empty() {
        let tx = client.transaction().await?;
        lock(&tx, slot).await?;
        promote(&tx, slot, &stranded).await?;
        tx.commit().await?;
    }
    Ok(stranded.len())
}

/// Keys whose first row waits for a row that is gone, or that does not precede it any more.
pub(super) async fn stranded_keys(
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

/// Deletes delivered rows that are older than the retention, at most `batch`; returns how many.
/// Events that the slot has not confirmed can be sent again by the server, and their rows must then
/// be found. Discarded rows may be needed for longer: see
/// [`clean_discarded`](crate::parking::store::clean_discarded).
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

/// Counts what is there.
pub async fn counts(client: &Client, slot: &str) -> Result<Counts, Error> {
    const LIVE: &str = concat!(
        "SELECT source_table, \
                CASE WHEN topic ~ '^[a-zA-Z0-9._-]{1,249}$' THEN topic ELSE '(illegal)' END, \
                status, sum(rows)::bigint \
           FROM (SELECT source_table, topic, status, count(*) AS rows \
                   FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!(),
        "         GROUP BY 1, 2, 3) AS by_stored_topic \
          GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT $2"
    );
    const REPLAYED: &str = "SELECT topic, result, events FROM postrider.replayed \
        ORDER BY events DESC LIMIT $1";
    let mut counts = Counts { total: live_total(client, slot).await?, ..Counts::default() };
    for row in client.query(LIVE, &[&slot, &COUNTED_MAX]).await? {
        counts.live.push(LiveCount {
            source_table: row.try_get(0)?,
            topic: row.try_get(1)?,
            status: row.try_get::<_, StatusColumn>(2)?.0,
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
