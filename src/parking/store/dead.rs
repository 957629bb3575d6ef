//! Lists, shows and discards events of the side table.

use std::collections::HashSet;

use serde::Serialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use super::keys;
use super::{lock, promote};
use crate::parking::filter::Filter;
use postrider_core::order::OrderKey;

/// What a filter means, for [`conditions`].
macro_rules! matching {
    () => {
        "u.slot = $1 AND ($2::text IS NULL OR u.topic = $2) \
         AND ($3::text IS NULL OR u.source_table = $3) AND ($4::text IS NULL OR u.tenant = $4) \
         AND ($5::text IS NULL OR u.ordering_key = $5) AND ($6::text IS NULL OR u.reason = $6) \
         AND ($7::timestamptz IS NULL OR u.created_at >= $7) \
         AND ($8::timestamptz IS NULL OR u.created_at <= $8) \
         AND ($9::bigint[] IS NULL OR u.id = ANY($9))"
    };
}
pub(super) use matching;

/// All columns but the value. Times are in JSON's format, which can also express infinity.
macro_rules! columns {
    () => {
        "u.id, u.slot, u.source_table, u.row_id, u.idempotency_key, u.ordering_key, u.tenant, \
         u.commit_lsn::text AS commit_lsn, u.change_lsn::text AS change_lsn, u.ordinal, u.topic, \
         u.partition, u.key, \
         u.value_bytes, u.headers::text AS headers, to_json(u.\"timestamp\") #>> '{}' AS stamp, \
         u.form, u.status, u.reason, u.attempts, to_json(u.next_attempt_at) #>> '{}' AS next, \
         u.locked_by, to_json(u.locked_until) #>> '{}' AS locked_until, u.last_error, \
         to_json(u.created_at) #>> '{}' AS created_at, \
         to_json(u.updated_at) #>> '{}' AS updated_at, \
         to_json(u.delivered_at) #>> '{}' AS delivered_at, \
         extract(epoch FROM clock_timestamp() - u.created_at)::bigint AS age_seconds, \
         CASE WHEN u.status = 'pending' AND u.next_attempt_at < 'infinity' \
              THEN extract(epoch FROM u.next_attempt_at - clock_timestamp())::bigint END AS due"
    };
}

/// The parameters of `matching!`; more can follow.
pub(super) fn conditions<'a>(slot: &'a &'a str, filter: &'a Filter) -> Vec<&'a (dyn ToSql + Sync)> {
    vec![
        slot,
        &filter.topic,
        &filter.source_table,
        &filter.tenant,
        &filter.ordering_key,
        &filter.reason,
        &filter.since,
        &filter.until,
        &filter.ids,
    ]
}

/// An event in the side table, without its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)] // the columns, which the table explains
pub(crate) struct Entry {
    pub id: i64,
    pub slot: String,
    pub source_table: String,
    pub row_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub ordering_key: Option<String>,
    pub tenant: Option<String>,
    pub commit_lsn: String,
    pub change_lsn: String,
    pub ordinal: i64,
    pub topic: String,
    pub partition: Option<i32>,
    /// Text if it is text, else hexadecimal after `\x`.
    pub key: Option<String>,
    pub value_bytes: i64,
    pub headers: serde_json::Value,
    pub timestamp: String,
    pub form: String,
    pub status: String,
    pub reason: String,
    pub attempts: i32,
    pub next_attempt_at: String,
    pub locked_by: Option<String>,
    pub locked_until: Option<String>,
    pub last_error: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub delivered_at: Option<String>,
    #[serde(skip)]
    pub age_seconds: i64,
    /// Until a pending event is due; none while it waits for another.
    #[serde(skip)]
    pub due_seconds: Option<i64>,
}

impl Entry {
    fn read(row: &Row) -> Result<Self, Error> {
        let headers: &str = row.try_get("headers")?;
        Ok(Entry {
            id: row.try_get("id")?,
            slot: row.try_get("slot")?,
            source_table: row.try_get("source_table")?,
            row_id: row.try_get("row_id")?,
            idempotency_key: row.try_get("idempotency_key")?,
            ordering_key: row.try_get("ordering_key")?,
            tenant: row.try_get("tenant")?,
            commit_lsn: row.try_get("commit_lsn")?,
            change_lsn: row.try_get("change_lsn")?,
            ordinal: row.try_get("ordinal")?,
            topic: row.try_get("topic")?,
            partition: row.try_get("partition")?,
            key: row.try_get::<_, Option<Vec<u8>>>("key")?.map(text_or_hex),
            value_bytes: row.try_get("value_bytes")?,
            headers: serde_json::from_str(headers).unwrap_or_default(),
            timestamp: row.try_get("stamp")?,
            form: row.try_get("form")?,
            status: row.try_get("status")?,
            reason: row.try_get("reason")?,
            attempts: row.try_get("attempts")?,
            next_attempt_at: row.try_get("next")?,
            locked_by: row.try_get("locked_by")?,
            locked_until: row.try_get("locked_until")?,
            last_error: row.try_get("last_error")?,
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
            delivered_at: row.try_get("delivered_at")?,
            age_seconds: row.try_get("age_seconds")?,
            due_seconds: row.try_get("due")?,
        })
    }
}

fn text_or_hex(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| format!("\\x{}", hex(error.as_bytes())))
}

/// Two hexadecimal digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Events of these statuses, in the order in which they were parked, after the id `after`.
pub(crate) async fn list(
    client: &Client,
    slot: &str,
    statuses: &[String],
    filter: &Filter,
    after: i64,
    limit: u64,
) -> Result<Vec<Entry>, Error> {
    const SQL: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM postrider.undelivered u WHERE ",
        matching!(),
        " AND u.status = ANY($10) AND u.id > $11 ORDER BY u.id LIMIT $12"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values = conditions(&slot, filter);
    values.extend([&statuses as &(dyn ToSql + Sync), &after, &limit]);
    client.query(SQL, &values).await?.iter().map(Entry::read).collect()
}

/// How many there are, regardless of the limit.
pub(crate) async fn count(
    client: &Client,
    slot: &str,
    statuses: &[String],
    filter: &Filter,
) -> Result<u64, Error> {
    const SQL: &str = concat!(
        "SELECT count(*) FROM postrider.undelivered u WHERE ",
        matching!(),
        " AND u.status = ANY($10)"
    );
    let mut values = conditions(&slot, filter);
    values.push(&statuses);
    Ok(client.query_one(SQL, &values).await?.try_get::<_, i64>(0)?.unsigned_abs())
}

/// One event, of any slot.
pub(crate) async fn entry(client: &Client, id: i64) -> Result<Option<Entry>, Error> {
    const SQL: &str =
        concat!("SELECT ", columns!(), " FROM postrider.undelivered u WHERE u.id = $1");
    client.query_opt(SQL, &[&id]).await?.as_ref().map(Entry::read).transpose()
}

/// The value of one event; none if it has no value, or if the value is not here.
pub(crate) async fn value(client: &Client, id: i64) -> Result<Option<Vec<u8>>, Error> {
    const SQL: &str = "SELECT value FROM postrider.undelivered WHERE id = $1";
    let row = client.query_opt(SQL, &[&id]).await?;
    row.map(|row| row.try_get(0)).transpose().map(Option::flatten)
}

/// Discards dead events, at most `batch` of them, after the id `after`, and releases those that
/// waited for them. Returns their ids; rows that another command has locked are skipped.
pub(crate) async fn discard(
    client: &mut Client,
    slot: &str,
    filter: &Filter,
    after: i64,
    batch: u64,
) -> Result<Vec<i64>, Error> {
    // Found before the lock is taken, so that nobody has to wait for a long search.
    const FIND: &str = concat!(
        "SELECT u.id FROM postrider.undelivered u WHERE ",
        matching!(),
        " AND u.status = 'dead' AND u.id > $10 ORDER BY u.id LIMIT $11 FOR UPDATE SKIP LOCKED"
    );
    const DISCARD: &str = "UPDATE postrider.undelivered \
           SET status = 'discarded', updated_at = clock_timestamp() \
         WHERE id = ANY($1) RETURNING topic, ordering_key, partition, whole_topic";
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let tx = client.transaction().await?;
    let mut values = conditions(&slot, filter);
    values.extend([&after as &(dyn ToSql + Sync), &batch]);
    let found = tx.query(FIND, &values).await?;
    let ids: Vec<i64> = found.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(ids);
    }
    lock(&tx, slot).await?;
    let freed: HashSet<OrderKey> =
        keys::read(&tx.query(DISCARD, &[&ids]).await?)?.into_iter().collect();
    let freed: Vec<OrderKey> = freed.into_iter().collect();
    promote(&tx, slot, &freed).await?;
    tx.commit().await?;
    Ok(ids)
}
