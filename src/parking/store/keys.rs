//! Which keys are held, and which row is the first of each.

use futures_util::TryStreamExt as _;
use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, GenericClient, Row, Transaction};

use super::{live, lock, sql_text};
use crate::rights::has_rights;
use postrider_core::lsn::Lsn;
use postrider_core::order::{OrderKey, Within};
use postrider_core::parking::LiveTotal;

/// Messages that are not events, counted.
const MALFORMED_COUNTED_MAX: i64 = 10_000;

/// Sorts before all keys.
const NO_KEY: &str = "00000000-0000-0000-0000-000000000000";
/// Rows that are searched together for their keys. The next page begins after the last key, so that
/// no row is read twice, and a key with more rows than this costs one page.
const PAGE_ROWS: i64 = 4_096;

/// The keys of [`Columns`], `$2` to `$5`, as `k`, each with its place.
macro_rules! keys {
    () => {
        "unnest($2::text[], $3::text[], $4::int[], $5::bool[]) WITH ORDINALITY \
           AS k(topic, ordering_key, partition, whole_topic, place)"
    };
}
pub(super) use keys;

/// The id of the key `k`.
macro_rules! key_id {
    () => {
        "postrider.key_id(k.topic, k.ordering_key, k.partition, k.whole_topic) "
    };
}
pub(super) use key_id;

/// Makes the first row of each key due, if it still waits for one that is gone. Requires the lock.
pub async fn promote(tx: &Transaction<'_>, slot: &str, keys: &[OrderKey]) -> Result<(), Error> {
    // As an array: looked up key by key, and then by primary key, however many rows wait. For the
    // same reason `isfinite`, which cannot use an index, and not a comparison.
    const SQL: &str = concat!(
        "UPDATE postrider.undelivered SET next_attempt_at = now(), updated_at = clock_timestamp() \
          WHERE status = 'pending' AND NOT isfinite(next_attempt_at) AND id = ANY(ARRAY( \
            SELECT first.id FROM ",
        keys!(),
        "    CROSS JOIN LATERAL (SELECT h.id, h.status, h.next_attempt_at \
                      FROM postrider.undelivered h \
                     WHERE h.slot = $1 AND h.key_id = ",
        key_id!(),
        "              AND h.status IN ",
        live!(),
        "            ORDER BY h.commit_lsn, h.change_lsn, h.ordinal, h.id LIMIT 1) first \
             WHERE first.status = 'pending' AND first.next_attempt_at = 'infinity'))"
    );
    if keys.is_empty() {
        return Ok(());
    }
    tx.execute(SQL, &Columns::of(keys).values(&slot)).await?;
    Ok(())
}

/// `k`: the first row of each key that is not done. From key to key through the index, so that the
/// cost depends on the number of keys, not of the rows after them.
macro_rules! first_rows {
    () => {
        concat!(
            "WITH RECURSIVE k AS ( \
               (SELECT key_id, topic, ordering_key, partition, whole_topic, status, \
                       next_attempt_at \
                  FROM postrider.undelivered \
                 WHERE slot = $1 AND key_id IS NOT NULL AND status IN ",
            $crate::parking::store::live!(),
            "    ORDER BY key_id, commit_lsn, change_lsn, ordinal, id LIMIT 1) \
               UNION ALL \
               SELECT n.* FROM k CROSS JOIN LATERAL \
               (SELECT u.key_id, u.topic, u.ordering_key, u.partition, u.whole_topic, \
                       u.status, u.next_attempt_at \
                  FROM postrider.undelivered u \
                 WHERE u.slot = $1 AND u.key_id > k.key_id AND u.status IN ",
            $crate::parking::store::live!(),
            "    ORDER BY u.key_id, u.commit_lsn, u.change_lsn, u.ordinal, u.id LIMIT 1) n) "
        )
    };
}
pub(super) use first_rows;

/// Passes all keys with an unfinished row to `found`, some of them several times. Fewer rows than
/// `rows_max` are read in any order, which is the fastest way; otherwise the keys are read page by
/// page.
pub async fn held_keys(
    tx: &impl GenericClient,
    slot: &str,
    rows_max: usize,
    mut found: impl FnMut(OrderKey),
) -> Result<(), Error> {
    if !keys_of_few_rows(tx, slot, rows_max, &mut found).await? {
        keys_by_pages(tx, slot, &mut found).await?;
    }
    Ok(())
}

/// Returns whether those were all the rows.
async fn keys_of_few_rows(
    tx: &impl GenericClient,
    slot: &str,
    rows_max: usize,
    found: &mut impl FnMut(OrderKey),
) -> Result<bool, Error> {
    const SQL: &str = concat!(
        "SELECT topic, ordering_key, partition, whole_topic FROM postrider.undelivered \
          WHERE slot = $1 AND key_id IS NOT NULL AND status IN ",
        live!(),
        " LIMIT $2"
    );
    let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let parameters: [&(dyn ToSql + Sync); 2] = [&slot, &limit];
    let rows = tx.query_raw(SQL, parameters).await?;
    tokio::pin!(rows);
    let mut count = 0;
    while let Some(row) = rows.try_next().await? {
        count += 1;
        key(&row)?.map(&mut *found);
    }
    Ok(count < rows_max)
}

/// Through the index: a key with many rows costs a page of them.
async fn keys_by_pages(
    tx: &impl GenericClient,
    slot: &str,
    found: &mut impl FnMut(OrderKey),
) -> Result<(), Error> {
    const SQL: &str = concat!(
        "SELECT DISTINCT ON (key_id) topic, ordering_key, partition, whole_topic, key_id::text AS place \
           FROM (SELECT key_id, topic, ordering_key, partition, whole_topic \
                   FROM postrider.undelivered \
                  WHERE slot = $1 AND key_id > $2::text::uuid AND status IN ",
        live!(),
        "         ORDER BY key_id LIMIT $3) page ORDER BY key_id"
    );
    let page = tx.prepare(SQL).await?;
    let mut last = Some(NO_KEY.to_owned());
    while let Some(place) = last.take() {
        let parameters: [&(dyn ToSql + Sync); 3] = [&slot, &place, &PAGE_ROWS];
        // Row by row: a whole page would take megabytes.
        let rows = tx.query_raw(&page, parameters).await?;
        tokio::pin!(rows);
        while let Some(row) = rows.try_next().await? {
            last = row.try_get(4)?;
            key(&row)?.map(&mut *found);
        }
    }
    Ok(())
}

/// What a slot has unfinished in the side table, read from indexes alone.
pub async fn live_total(client: &impl GenericClient, slot: &str) -> Result<LiveTotal, Error> {
    const SQL: &str = concat!(
        "SELECT coalesce(sum(bytes), 0)::bigint, coalesce(max(commit_lsn), '0/0'), \
                (SELECT count(*) FROM (SELECT FROM postrider.undelivered \
                   WHERE slot = $1 AND reason = 'malformed' AND status = 'dead' LIMIT $2) kept) \
           FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!()
    );
    let row = client.query_one(SQL, &[&slot, &MALFORMED_COUNTED_MAX]).await?;
    let newest: PgLsn = row.try_get(1)?;
    Ok(LiveTotal {
        bytes: row.try_get::<_, i64>(0)?.unsigned_abs(),
        malformed: row.try_get::<_, i64>(2)?.unsigned_abs(),
        newest_commit: Lsn::new(newest.into()),
    })
}

/// Whether a slot has anything unfinished there. A role that is not allowed to look has never
/// parked.
pub(crate) async fn has_live(client: &Client, slot: &str) -> Result<bool, Error> {
    const SQL: &str = concat!(
        "SELECT EXISTS (SELECT FROM postrider.undelivered WHERE slot = $1 AND status IN ",
        live!(),
        ")"
    );
    if has_rights(client, "undelivered", &["SELECT"]).await? != Some(true) {
        return Ok(false);
    }
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// Those of the keys that have no unfinished rows any more. A row can only become unfinished by
/// being parked, so the answer holds until the caller parks something.
pub async fn free_keys(
    client: &mut Client,
    slot: &str,
    keys: &[OrderKey],
) -> Result<Vec<OrderKey>, Error> {
    const SQL: &str = concat!(
        "SELECT k.place FROM ",
        keys!(),
        " WHERE NOT EXISTS (SELECT FROM postrider.undelivered \
                             WHERE slot = $1 AND key_id = ",
        key_id!(),
        "                      AND status IN ",
        live!(),
        ")"
    );
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(keys);
    let tx = client.transaction().await?;
    lock(&tx, slot).await?;
    let rows = tx.query(SQL, &columns.values(&slot)).await?;
    tx.commit().await?;
    let mut free = Vec::with_capacity(rows.len());
    for row in &rows {
        let place = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or_default();
        free.extend(keys.get(place.wrapping_sub(1)).cloned());
    }
    Ok(free)
}

/// Keys, column by column.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) topics: Vec<String>,
    pub(super) ordering_keys: Vec<Option<String>>,
    pub(super) partitions: Vec<Option<i32>>,
    pub(super) whole_topics: Vec<bool>,
}

impl Columns {
    pub(super) fn of(keys: &[OrderKey]) -> Self {
        let mut columns = Columns::default();
        for OrderKey { topic, within } in keys {
            let (ordering_key, partition) = match within {
                Within::Key(key) => (Some(sql_text(key)), None),
                Within::Partition(partition) => (None, Some(*partition)),
                Within::Topic => (None, None),
            };
            columns.topics.push(sql_text(topic));
            columns.ordering_keys.push(ordering_key);
            columns.partitions.push(partition);
            columns.whole_topics.push(*within == Within::Topic);
        }
        columns
    }

    /// The parameters of a statement about the keys of a slot.
    fn values<'a>(&'a self, slot: &'a &'a str) -> [&'a (dyn ToSql + Sync); 5] {
        [slot, &self.topics, &self.ordering_keys, &self.partitions, &self.whole_topics]
    }
}

/// The keys of rows that begin with topic, ordering key, partition and whole_topic. Rows without an
/// order have none.
pub(super) fn read(rows: &[Row]) -> Result<Vec<OrderKey>, Error> {
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        keys.extend(key(row)?);
    }
    Ok(keys)
}

fn key(row: &Row) -> Result<Option<OrderKey>, Error> {
    let (topic, ordering_key): (&str, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(OrderKey::of(topic, ordering_key, row.try_get(2)?, row.try_get(3)?))
}
