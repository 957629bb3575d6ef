//! What is done to the side table now and then.

use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::{keys, live, lock, promote};
use crate::config::Order;

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
    const LEFT: &str = concat!(
        keys::first_rows!(),
        "SELECT topic, ordering_key FROM k \
          WHERE status = 'pending' AND next_attempt_at = 'infinity' LIMIT $2"
    );
    client.execute(ALL, &[&slot, &(order == Order::Continue)]).await?;
    // Looked for without the lock, so that nobody waits for a long look.
    let left = keys::read(&client.query(LEFT, &[&slot, &SWEEP_KEYS_MAX]).await?)?;
    if !left.is_empty() {
        let tx = client.transaction().await?;
        lock(&tx, slot).await?;
        promote(&tx, slot, &left).await?;
        tx.commit().await?;
    }
    Ok(left.len())
}

/// The database is another server's copy, and places in that one's log mean nothing here: events would
/// wait for the slot to come to them. They become the first places there are, in the same order.
pub async fn rebase(client: &mut Client, slot: &str) -> Result<(), Error> {
    const SQL: &str = "UPDATE postrider.undelivered u \
            SET commit_lsn = '0/0'::pg_lsn + r.place::numeric \
           FROM (SELECT id, dense_rank() OVER (ORDER BY commit_lsn) AS place \
                   FROM postrider.undelivered WHERE slot = $1) r \
          WHERE u.id = r.id";
    let tx = client.transaction().await?;
    lock(&tx, slot).await?;
    tx.execute(SQL, &[&slot]).await?;
    tx.commit().await
}

/// Deletes delivered rows that are older than the retention, at most `batch`; gives back how many.
/// What the slot has not confirmed may come again, and must then be found. Discarded rows may be needed
/// for longer: see [`clean_discarded`](super::clean_discarded).
pub async fn clean(
    client: &Client,
    slot: &str,
    retention: Duration,
    batch: usize,
) -> Result<usize, Error> {
    const SQL: &str = "DELETE FROM postrider.undelivered WHERE id = ANY(ARRAY( \
        SELECT id FROM postrider.undelivered \
         WHERE slot = $1 AND status = 'delivered' \
           AND updated_at < now() - $2 * interval '1 second' \
           AND commit_lsn < coalesce((SELECT confirmed_flush_lsn FROM pg_replication_slots \
                                       WHERE slot_name = $1), 'FFFFFFFF/FFFFFFFF') \
         ORDER BY updated_at LIMIT $3 FOR UPDATE SKIP LOCKED))";
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let deleted = client.execute(SQL, &[&slot, &retention.as_secs_f64(), &batch]).await?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

/// What is in the side table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// What is not done.
    pub live: Vec<LiveCount>,
    /// What `postrider replay` has done so far, whatever the slot.
    pub replayed: Vec<ReplayedCount>,
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
    /// What their values take in the side table.
    pub bytes: u64,
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
                status, count(*), \
                coalesce(sum(value_bytes) FILTER (WHERE form <> 'reference'), 0)::bigint \
           FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!(),
        " GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT $2"
    );
    const REPLAYED: &str = "SELECT topic, result, events FROM postrider.replayed \
        ORDER BY events DESC LIMIT $1";
    let mut counts = Counts::default();
    for row in client.query(LIVE, &[&slot, &COUNTED_MAX]).await? {
        counts.live.push(LiveCount {
            source_table: row.try_get(0)?,
            topic: row.try_get(1)?,
            status: row.try_get(2)?,
            events: row.try_get::<_, i64>(3)?.unsigned_abs(),
            bytes: row.try_get::<_, i64>(4)?.unsigned_abs(),
        });
    }
    for row in client.query(REPLAYED, &[&COUNTED_MAX]).await? {
        counts.replayed.push(ReplayedCount {
            topic: row.try_get(0)?,
            result: row.try_get(1)?,
            events: row.try_get::<_, i64>(2)?.unsigned_abs(),
        });
    }
    Ok(counts)
}
