//! The inbox of consumers that share this database: claims older than the retention go.

use tokio_postgres::{Client, Error};

/// Deletes at most a batch; gives back how many rows went. Without the table, or without rights on
/// it, there is nothing to do.
pub(super) async fn clean(
    client: &Client,
    retention_seconds: f64,
    batch: i64,
) -> Result<u64, Error> {
    const FIND: &str = "SELECT EXISTS (SELECT FROM pg_class c \
          JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'postrider' AND c.relname = 'inbox' AND c.relkind = 'r' \
           AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') \
           AND has_table_privilege(c.oid, 'DELETE'))";
    const CLEAN: &str = "DELETE FROM postrider.inbox WHERE ctid = ANY(ARRAY( \
        SELECT ctid FROM postrider.inbox \
         WHERE claimed_at < now() - $1::float8 * interval '1 second' LIMIT $2))";
    if !client.query_one(FIND, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    client.execute(CLEAN, &[&retention_seconds, &batch]).await
}
