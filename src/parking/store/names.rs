//! Keeps the table names of entries up to date.

use tokio_postgres::{Client, Error};

/// Entries renamed in one statement.
const BATCH: u64 = 10_000;

/// Entries of a table that was renamed belong to it under its new name. Delivered ones are left:
/// they only wait to be deleted. An event that was parked under both names keeps both entries.
/// Returns how many were renamed.
pub(crate) async fn follow_rename(
    client: &Client,
    slot: &str,
    from: &str,
    to: &str,
) -> Result<u64, Error> {
    const SQL: &str = "UPDATE postrider.undelivered SET source_table = $3 WHERE id = ANY(ARRAY( \
        SELECT u.id FROM postrider.undelivered u \
         WHERE u.slot = $1 AND u.source_table = $2 AND u.status <> 'delivered' \
           AND NOT EXISTS (SELECT FROM postrider.undelivered o \
                WHERE o.slot = u.slot AND o.source_table = $3 AND o.commit_lsn = u.commit_lsn \
                  AND o.change_lsn = u.change_lsn AND o.ordinal = u.ordinal \
                  AND coalesce(o.row_id, '') = coalesce(u.row_id, '')) \
         LIMIT $4))";
    let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
    let mut renamed = 0;
    loop {
        let batch = client.execute(SQL, &[&slot, &from, &to, &limit]).await?;
        renamed += batch;
        if batch < BATCH {
            return Ok(renamed);
        }
    }
}
