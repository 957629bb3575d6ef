//! Inserts events into the side table.

use std::collections::HashSet;
use std::time::Duration;

use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Error};

use super::{lock, promote, sql_text};
use postrider_core::parking::shortened;
use postrider_core::parking::{EventToPark, ParkAs, SchemaToFind};

/// Events that are there already are not changed. The conflict target names the index, so that an
/// `id` that is assigned twice is an error, and not mistaken for an event that is there. `$20` is
/// the pause in seconds; none: the event waits for another. 'epoch' plus microseconds is exact,
/// where `to_timestamp` would round.
const INSERT: &str = r#"
INSERT INTO postrider.undelivered
       (slot, source_table, row_id, idempotency_key, ordering_key, tenant, commit_lsn, ordinal,
        topic, partition, key, value, value_bytes, headers, "timestamp", form, status, reason,
        last_error, next_attempt_at, system_identifier, whole_topic, change_lsn, partition_by,
        schema_to_find, adds_committed_at)
SELECT $1, p.source_table, p.row_id, p.idempotency_key, p.ordering_key, p.tenant, p.commit_lsn,
       p.ordinal, p.topic, p.partition, p.key, p.value, p.value_bytes, p.headers::json,
       'epoch'::timestamptz + p.commit_unix_micros * interval '1 microsecond', p.form, p.status,
       p.reason, p.last_error,
       CASE WHEN p.delay_seconds IS NULL THEN 'infinity'
            ELSE now() + p.delay_seconds * interval '1 second' END,
       $21, p.whole_topic, p.change_lsn, p.partition_by, p.schema_to_find::json, p.adds_committed_at
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::pg_lsn[],
              $8::bigint[], $9::text[], $10::int[], $11::bytea[], $12::bytea[], $13::bigint[],
              $14::text[], $15::bigint[], $16::text[], $17::text[], $18::text[], $19::text[],
              $20::float8[], $22::bool[], $23::pg_lsn[], $24::bytea[], $25::text[], $26::bool[])
       WITH ORDINALITY
    AS p(source_table, row_id, idempotency_key, ordering_key, tenant, commit_lsn, ordinal, topic,
         partition, key, value, value_bytes, headers, commit_unix_micros, form, status, reason,
         last_error, delay_seconds, whole_topic, change_lsn, partition_by, schema_to_find,
         adds_committed_at, place)
 ORDER BY p.place
    ON CONFLICT (slot, source_table, commit_lsn, change_lsn, ordinal, postrider.text_id(coalesce(row_id, '')))
       DO NOTHING
RETURNING commit_lsn, change_lsn, ordinal"#;

/// Why events were not parked.
#[derive(Debug, thiserror::Error)]
pub enum ParkError {
    /// Postgres reported an error, or did not answer.
    #[error("{}", crate::postgres::describe(.0))]
    Postgres(#[from] Error),
    /// Another session of the slot's relay has begun to park.
    #[error("another session of this slot's relay has begun to park events")]
    Superseded,
}

/// Who parks events, and of which slot.
#[derive(Debug, Clone, Copy)]
pub struct ParkingSession<'a> {
    /// The slot.
    pub slot: &'a str,
    /// What [`begin_parking`](crate::parking::store::begin_parking) returned; none: any session may
    /// park.
    pub parker: Option<&'a str>,
    /// The system identifier of the server.
    pub system_identifier: Option<&'a str>,
}

/// Parks events, in order, and returns once they are durable: for each, whether it was not there
/// before. `delays` are the pauses of those that are pending.
pub async fn park(
    client: &mut Client,
    session: &ParkingSession<'_>,
    events: &[EventToPark],
    delays: &[Duration],
) -> Result<Vec<bool>, ParkError> {
    let ParkingSession { slot, parker, system_identifier } = *session;
    let columns = Columns::of(events, delays);
    let waiting: Vec<_> = events
        .iter()
        .filter(|to_park| to_park.park_as == ParkAs::WaitForEarlier)
        .filter_map(EventToPark::order_key)
        .collect::<HashSet<_>>()
        .into_iter()
        .collect();
    let tx = client.transaction().await?;
    if lock(&tx, slot).await?.as_deref() != parker && parker.is_some() {
        return Err(ParkError::Superseded);
    }
    let c = &columns;
    let inserted = tx
        .query(
            INSERT,
            &[
                &slot,
                &c.source_table,
                &c.row_id,
                &c.idempotency_key,
                &c.ordering_key,
                &c.tenant,
                &c.commit_lsn,
                &c.ordinal,
                &c.topic,
                &c.partition,
                &c.key,
                &c.value,
                &c.value_bytes,
                &c.headers,
                &c.commit_unix_micros,
                &c.form,
                &c.status,
                &c.reason,
                &c.last_error,
                &c.delay_seconds,
                &system_identifier,
                &c.whole_topic,
                &c.change_lsn,
                &c.partition_by,
                &c.schema_to_find,
                &c.adds_committed_at,
            ],
        )
        .await?;
    promote(&tx, slot, &waiting).await?;
    tx.commit().await?;
    let mut new = HashSet::with_capacity(inserted.len());
    for row in &inserted {
        let (commit_lsn, change_lsn): (PgLsn, PgLsn) = (row.try_get(0)?, row.try_get(1)?);
        new.insert((u64::from(commit_lsn), u64::from(change_lsn), row.try_get::<_, i64>(2)?));
    }
    let lsns = c.commit_lsn.iter().zip(&c.change_lsn);
    let places = lsns.zip(&c.ordinal).map(|((commit_lsn, change_lsn), ordinal)| {
        (u64::from(*commit_lsn), u64::from(*change_lsn), *ordinal)
    });
    Ok(places.map(|place| new.contains(&place)).collect())
}

/// The events, column by column.
#[derive(Default)]
struct Columns<'a> {
    source_table: Vec<&'a str>,
    row_id: Vec<Option<String>>,
    idempotency_key: Vec<Option<String>>,
    ordering_key: Vec<Option<String>>,
    tenant: Vec<Option<String>>,
    commit_lsn: Vec<PgLsn>,
    change_lsn: Vec<PgLsn>,
    ordinal: Vec<i64>,
    topic: Vec<String>,
    partition: Vec<Option<i32>>,
    key: Vec<Option<&'a [u8]>>,
    value: Vec<Option<&'a [u8]>>,
    value_bytes: Vec<i64>,
    headers: Vec<&'a str>,
    commit_unix_micros: Vec<i64>,
    form: Vec<&'static str>,
    status: Vec<&'static str>,
    reason: Vec<&'static str>,
    last_error: Vec<String>,
    delay_seconds: Vec<Option<f64>>,
    whole_topic: Vec<bool>,
    partition_by: Vec<Option<&'a [u8]>>,
    schema_to_find: Vec<Option<String>>,
    adds_committed_at: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn of(events: &'a [EventToPark], delays: &[Duration]) -> Self {
        let mut columns = Columns::default();
        let delays = delays.iter().copied().chain(std::iter::repeat(Duration::ZERO));
        for (to_park, delay) in events.iter().zip(delays) {
            columns.push(to_park, delay);
        }
        columns
    }

    fn push(&mut self, to_park: &'a EventToPark, delay: Duration) {
        let text = |text: &Option<String>| text.as_deref().map(sql_text);
        let (status, delay_seconds) = match to_park.park_as {
            ParkAs::Retry => ("pending", Some(delay.as_secs_f64())),
            ParkAs::WaitForEarlier => ("pending", None),
            ParkAs::Dead => ("dead", Some(0.0)),
        };
        self.source_table.push(&to_park.source_table);
        self.row_id.push(text(&to_park.row_id));
        self.idempotency_key.push(text(&to_park.idempotency_key));
        self.ordering_key.push(text(&to_park.ordering_key));
        self.tenant.push(text(&to_park.tenant));
        self.commit_lsn.push(PgLsn::from(to_park.position.commit_lsn.bytes()));
        self.change_lsn.push(PgLsn::from(to_park.position.change_lsn.bytes()));
        self.ordinal.push(i64::try_from(to_park.position.ordinal).unwrap_or(i64::MAX));
        self.topic.push(sql_text(&to_park.topic));
        self.partition.push(to_park.partition);
        self.key.push(to_park.key.as_deref());
        self.value.push(to_park.value.as_deref());
        self.value_bytes.push(i64::try_from(to_park.value_bytes).unwrap_or(i64::MAX));
        self.headers.push(&to_park.headers);
        self.commit_unix_micros.push(to_park.commit_unix_micros);
        self.form.push(to_park.completeness.name());
        self.status.push(status);
        self.reason.push(to_park.refusal.reason.label());
        self.last_error.push(shortened(&to_park.refusal.detail));
        self.delay_seconds.push(delay_seconds);
        self.whole_topic.push(to_park.whole_topic);
        self.partition_by.push(to_park.partition_by.as_deref());
        self.schema_to_find.push(to_park.schema.as_ref().map(SchemaToFind::to_json));
        self.adds_committed_at.push(to_park.adds_committed_at);
    }
}
