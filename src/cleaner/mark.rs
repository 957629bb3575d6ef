//! All SQL on the table `postrider.cleaner_mark`.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use super::table::CleanableTable;
use postrider_core::cleaning::lateness::{
    Done, Mark, NEVER, RetentionBounds, spacing_seconds, tolerated_seconds,
};
use postrider_core::cleaning::rule::OwnSlot;

/// Notes which marks are done by now, adds one if it is time, and deletes those that are not needed
/// any more.
pub(super) async fn update(
    client: &Client,
    outbox: &CleanableTable,
    own: OwnSlot<'_>,
    retention_seconds: f64,
) -> Result<(), Error> {
    const NOTE_DONE: &str = "UPDATE postrider.cleaner_mark SET done_at = clock_timestamp() \
         WHERE slot = $1 AND outbox = $2 AND done_at IS NULL \
           AND log_end <= (SELECT min(p.position) FROM postrider.coverage c \
                             JOIN postrider.progress p ON p.slot = c.slot \
                            WHERE c.outbox::oid = ANY($3))";
    // The log's end is read after the snapshot: transactions that have ended in the snapshot
    // committed before that end.
    const ADD: &str = "INSERT INTO postrider.cleaner_mark \
                (slot, outbox, generation, next_xid, over_before, log_end) \
         SELECT $1, $2, $3::text::uuid, pg_snapshot_xmax(pg_current_snapshot()), \
                pg_snapshot_xmin(pg_current_snapshot()), pg_current_wal_insert_lsn() \
          WHERE NOT EXISTS (SELECT FROM postrider.cleaner_mark \
                             WHERE slot = $1 AND outbox = $2 AND generation = $3::text::uuid \
                               AND marked_at > clock_timestamp() - $4::float8 * interval '1 second')";
    let slot = own.slot;
    client.execute(NOTE_DONE, &[&slot, &own.outbox, &outbox.family]).await?;
    let spacing = spacing_seconds(retention_seconds);
    client.execute(ADD, &[&slot, &own.outbox, &own.generation, &spacing]).await?;
    thin_out(client, own, retention_seconds).await
}

/// Keeps the marks that were done within the retention and a while longer, and the last one before
/// that; of those that are not done, the oldest, which will be done first, and the recent ones.
async fn thin_out(client: &Client, own: OwnSlot<'_>, retention_seconds: f64) -> Result<(), Error> {
    const SQL: &str = "DELETE FROM postrider.cleaner_mark m \
         USING (SELECT min(marked_at) FILTER (WHERE done_at IS NULL) AS first_open, \
                       max(done_at) FILTER (WHERE done_at <= now() - $4::float8 * interval '1 second') \
                           AS last_served \
                  FROM postrider.cleaner_mark \
                 WHERE slot = $1 AND outbox = $2 AND generation = $3::text::uuid) AS known \
         WHERE m.slot = $1 AND m.outbox = $2 \
           AND (m.generation <> $3::text::uuid \
                OR m.done_at < known.last_served \
                   AND m.done_at < now() - ($4::float8 + $5::float8) * interval '1 second' \
                OR m.done_at IS NULL AND m.marked_at > known.first_open \
                   AND m.marked_at < now() - $5::float8 * interval '1 second')";
    let tolerated = tolerated_seconds(retention_seconds);
    let values: [&(dyn ToSql + Sync); 5] =
        [&own.slot, &own.outbox, &own.generation, &retention_seconds, &tolerated];
    client.execute(SQL, &values).await?;
    Ok(())
}

/// The transactions whose rows have been kept for the retention by now.
pub(super) async fn retention_bounds(
    client: &Client,
    outbox: &CleanableTable,
    own: OwnSlot<'_>,
    retention_seconds: f64,
) -> Result<RetentionBounds, Error> {
    const SQL: &str = "SELECT extract(epoch FROM clock_timestamp() - marked_at)::float8, \
                next_xid::text, \
                extract(epoch FROM clock_timestamp() - done_at)::float8, over_before::text \
           FROM postrider.cleaner_mark \
          WHERE slot = $1 AND outbox = $2 AND generation = $3::text::uuid \
         UNION ALL \
         SELECT extract(epoch FROM clock_timestamp() - noted_at)::float8, noted_xid::text, NULL, NULL \
           FROM postrider.coverage \
          WHERE outbox::oid = ANY($4) AND noted_at IS NOT NULL AND noted_xid IS NOT NULL";
    update(client, outbox, own, retention_seconds).await?;
    let number = |text: String| text.parse().unwrap_or(NEVER);
    let read = |row: &tokio_postgres::Row| {
        let done = match (row.try_get(2)?, row.try_get::<_, Option<String>>(3)?) {
            (Some(seconds_ago), Some(over)) => {
                // What can't be parsed counts as not done.
                Some(Done { seconds_ago, over_before: over.parse().unwrap_or(0) })
            }
            _ => None,
        };
        Ok(Mark { seconds_ago: row.try_get(0)?, next_xid: number(row.try_get(1)?), done })
    };
    let values: [&(dyn ToSql + Sync); 4] =
        [&own.slot, &own.outbox, &own.generation, &outbox.family];
    let rows = client.query(SQL, &values).await?;
    let marks: Result<Vec<Mark>, Error> = rows.iter().map(read).collect();
    Ok(RetentionBounds::from_marks(&marks?, retention_seconds))
}
