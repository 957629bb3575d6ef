//! What became of claimed rows. Only the holder of their lease may record it.

use std::collections::HashSet;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Transaction};

use super::keys;
use super::{first_of_key, live, lock, promote};
use crate::config::Order;
use postrider_core::delivery::{Reason, Refusal};
use postrider_core::order::OrderKey;
use postrider_core::parking::notices::{Notice, shown, topic_shown};
use postrider_core::parking::shortened;

/// Whether a row waits for no other.
macro_rules! first {
    ($overtake:literal) => {
        concat!("(", $overtake, " OR u.key_id IS NULL OR u.id = ", first_of_key!(), ")")
    };
}

/// What an acknowledgement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// The rows that are delivered. The leases of the others had passed to another instance.
    pub ids: Vec<i64>,
    /// Their keys, each with how many of its rows are not done, counted up to a limit.
    pub keys: Vec<(OrderKey, usize)>,
}

/// Marks rows as delivered, and releases those that waited for them. `unanswered` is the
/// transaction of an earlier attempt whose COMMIT was not answered; rows that it has marked count
/// as well.
pub async fn acknowledge(
    client: &mut Client,
    slot: &str,
    owner: &str,
    ids: &[i64],
    unanswered: &mut Option<i64>,
    count_max: usize,
) -> Result<Acknowledged, Error> {
    // A server that was promoted meanwhile may not have advanced that far: then txid_status fails.
    const DONE: &str = "SELECT topic, ordering_key, partition, whole_topic, id FROM postrider.undelivered \
         WHERE slot = $1 AND id = ANY($2) AND status = 'delivered' \
           AND CASE WHEN $3 < txid_snapshot_xmax(txid_current_snapshot()) \
                    THEN txid_status($3) = 'committed' ELSE false END";
    const SQL: &str = "UPDATE postrider.undelivered \
           SET status = 'delivered', delivered_at = clock_timestamp(), locked_by = NULL, \
               locked_until = NULL, updated_at = clock_timestamp() \
         WHERE slot = $1 AND id = ANY($3) AND status = 'processing' AND locked_by = $2 \
     RETURNING topic, ordering_key, partition, whole_topic, id";
    if ids.is_empty() {
        return Ok(Acknowledged::default());
    }
    let tx = client.transaction().await?;
    lock(&tx, slot).await?;
    let mut done = Vec::with_capacity(ids.len());
    let mut rows = match &*unanswered {
        Some(earlier) => tx.query(DONE, &[&slot, &ids, earlier]).await?,
        None => Vec::new(),
    };
    rows.extend(tx.query(SQL, &[&slot, &owner, &ids]).await?);
    for row in &rows {
        done.push(row.try_get(4)?);
    }
    let touched: HashSet<OrderKey> = keys::read(&rows)?.into_iter().collect();
    let touched: Vec<OrderKey> = touched.into_iter().collect();
    promote(&tx, slot, &touched).await?;
    let live = count_live(&tx, slot, &touched, count_max).await?;
    *unanswered = Some(tx.query_one("SELECT txid_current()", &[]).await?.try_get(0)?);
    tx.commit().await?;
    *unanswered = None;
    Ok(Acknowledged { ids: done, keys: touched.into_iter().zip(live).collect() })
}

/// For each key, how many of its rows are not done.
async fn count_live(
    tx: &Transaction<'_>,
    slot: &str,
    keys: &[OrderKey],
    count_max: usize,
) -> Result<Vec<usize>, Error> {
    const SQL: &str = concat!(
        "SELECT (SELECT count(*) FROM (SELECT FROM postrider.undelivered \
                                        WHERE slot = $1 \
                                          AND key_id = ",
        keys::key_id!(),
        "                                 AND status IN ",
        live!(),
        "                               LIMIT $6) counted) \
           FROM ",
        keys::keys!(),
        " ORDER BY k.place"
    );
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let c = keys::Columns::of(keys);
    let count_max = i64::try_from(count_max).unwrap_or(i64::MAX);
    let values: [&(dyn ToSql + Sync); 6] =
        [&slot, &c.topics, &c.ordering_keys, &c.partitions, &c.whole_topics, &count_max];
    let rows = tx.query(SQL, &values).await?;
    rows.iter()
        .map(|row| Ok(usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or_default()))
        .collect()
}

/// A row that was tried and refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The row.
    pub id: i64,
    /// Why.
    pub refusal: Refusal,
    /// It is not tried again.
    pub is_dead: bool,
    /// Else, when.
    pub delay: Duration,
}

/// Records refusals; returns the rows whose lease was still ours. A dead row holds its key: the
/// rows after it wait, also if they were due.
pub async fn fail(
    client: &mut Client,
    slot: &str,
    owner: &str,
    failures: &[Failure],
    order: Order,
) -> Result<Vec<i64>, Error> {
    const SQL: &str = "UPDATE postrider.undelivered u \
           SET status = CASE WHEN f.dead THEN 'dead' ELSE 'pending' END, \
               next_attempt_at = now() + f.delay_seconds * interval '1 second', \
               reason = f.reason, last_error = f.error, locked_by = NULL, locked_until = NULL, \
               updated_at = clock_timestamp() \
          FROM unnest($3::bigint[], $4::bool[], $5::float8[], $6::text[], $7::text[]) \
            AS f(id, dead, delay_seconds, reason, error) \
         WHERE u.slot = $1 AND u.id = f.id AND u.status = 'processing' AND u.locked_by = $2 \
     RETURNING u.id";
    if failures.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<i64> = failures.iter().map(|it| it.id).collect();
    let dead: Vec<bool> = failures.iter().map(|it| it.is_dead).collect();
    let delays: Vec<f64> = failures.iter().map(|it| it.delay.as_secs_f64()).collect();
    let reasons: Vec<&str> = failures.iter().map(|it| it.refusal.reason.label()).collect();
    let errors: Vec<String> = failures.iter().map(|it| shortened(&it.refusal.detail)).collect();
    let tx = client.transaction().await?;
    lock(&tx, slot).await?;
    let rows = tx.query(SQL, &[&slot, &owner, &ids, &dead, &delays, &reasons, &errors]).await?;
    let failed: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let dead = failures.iter().filter(|it| it.is_dead && failed.contains(&it.id));
    let dead: Vec<i64> = dead.map(|it| it.id).collect();
    hold_followers(&tx, slot, &dead, order).await?;
    tx.commit().await?;
    Ok(failed)
}

/// Makes all rows wait that come after these dead rows.
async fn hold_followers(
    tx: &Transaction<'_>,
    slot: &str,
    dead: &[i64],
    order: Order,
) -> Result<(), Error> {
    const SQL: &str = "UPDATE postrider.undelivered u \
           SET next_attempt_at = 'infinity', updated_at = clock_timestamp() \
          FROM postrider.undelivered head \
         WHERE head.id = ANY($2) AND u.slot = $1 AND u.key_id = head.key_id \
           AND u.key_id IS NOT NULL AND u.status = 'pending' AND isfinite(u.next_attempt_at) \
           AND (u.commit_lsn, u.change_lsn, u.ordinal, u.id) \
             > (head.commit_lsn, head.change_lsn, head.ordinal, head.id)";
    if dead.is_empty() || order == Order::Continue {
        return Ok(());
    }
    tx.execute(SQL, &[&slot, &dead]).await?;
    Ok(())
}

/// Releases rows that were not tried: the claim does not count as an attempt. They are due again
/// after this delay.
pub async fn release_untried(
    client: &mut Client,
    slot: &str,
    owner: &str,
    ids: &[i64],
    delay: Duration,
    order: Order,
) -> Result<(), Error> {
    const SQL: &str = concat!(
        "UPDATE postrider.undelivered u \
            SET status = 'pending', attempts = greatest(u.attempts - 1, 0), locked_by = NULL, \
                locked_until = NULL, updated_at = clock_timestamp(), next_attempt_at = CASE WHEN ",
        first!("$4"),
        " THEN now() + $5 * interval '1 second' ELSE 'infinity' END \
          WHERE u.slot = $1 AND u.id = ANY($3) AND u.status = 'processing' AND u.locked_by = $2"
    );
    if ids.is_empty() {
        return Ok(());
    }
    let overtake = order == Order::Continue;
    let tx = client.transaction().await?;
    lock(&tx, slot).await?;
    tx.execute(SQL, &[&slot, &owner, &ids, &overtake, &delay.as_secs_f64()]).await?;
    tx.commit().await
}

/// A row whose lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// The outbox table's name.
    pub source_table: String,
    /// Where it goes.
    pub topic: String,
    /// The outbox row's id.
    pub row_id: Option<String>,
    /// Whose event it is.
    pub tenant: Option<String>,
    /// What consumers dedupe on.
    pub idempotency_key: Option<String>,
    /// It has no attempts left.
    pub is_dead: bool,
}

const NO_REPORT: &str = "the instance that tried it did not report back within the lease";

impl Expired {
    /// The notice for the log, if it is dead.
    pub(crate) fn notice(self) -> Notice {
        Notice {
            topic: topic_shown(&self.topic),
            table: self.source_table,
            reason: Reason::Refused,
            is_dead: true,
            row_id: shown(self.row_id.as_deref()),
            tenant: shown(self.tenant.as_deref()),
            idempotency_key: shown(self.idempotency_key.as_deref()),
            detail: NO_REPORT.to_owned(),
        }
    }
}

/// Takes back rows whose lease has expired. It is unknown whether they were sent, so the attempt
/// counts, but not for rows after another of their key: they must not die with that one.
pub async fn expire(
    client: &mut Client,
    slot: &str,
    max_attempts: u32,
    order: Order,
) -> Result<Vec<Expired>, Error> {
    const SQL: &str = concat!(
        "UPDATE postrider.undelivered e \
            SET status = CASE WHEN ended.first AND e.attempts >= $2 THEN 'dead' ELSE 'pending' END, \
                attempts = CASE WHEN ended.first THEN e.attempts \
                                ELSE greatest(e.attempts - 1, 0) END, \
                next_attempt_at = CASE WHEN ended.first THEN now() ELSE 'infinity' END, \
                locked_by = NULL, locked_until = NULL, updated_at = clock_timestamp(), \
                last_error = $4 \
           FROM (SELECT u.id, ",
        first!("$3"),
        "          AS first FROM postrider.undelivered u \
                  WHERE u.slot = $1 AND u.status = 'processing' AND u.locked_until < now()) ended \
          WHERE e.id = ended.id AND e.status = 'processing' AND e.locked_until < now() \
          RETURNING e.id, e.source_table, e.topic, e.status = 'dead', e.row_id, e.tenant, \
                    e.idempotency_key"
    );
    let overtake = order == Order::Continue;
    let max_attempts = i32::try_from(max_attempts).unwrap_or(i32::MAX);
    let tx = client.transaction().await?;
    lock(&tx, slot).await?;
    let mut expired = Vec::new();
    let mut dead = Vec::new();
    for row in tx.query(SQL, &[&slot, &max_attempts, &overtake, &NO_REPORT]).await? {
        let is_dead = row.try_get(3)?;
        expired.push(Expired {
            source_table: row.try_get(1)?,
            topic: row.try_get(2)?,
            row_id: row.try_get(4)?,
            tenant: row.try_get(5)?,
            idempotency_key: row.try_get(6)?,
            is_dead,
        });
        if is_dead {
            dead.push(row.try_get(0)?);
        }
    }
    hold_followers(&tx, slot, &dead, order).await?;
    tx.commit().await?;
    Ok(expired)
}
