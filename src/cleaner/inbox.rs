//! The inbox of consumers that share this database: if `inbox.retention` is set, older claims are
//! deleted.

use tokio_postgres::{Client, Error};

/// Why claims can't be deleted, and the fix.
pub(super) async fn obstacle(client: &Client) -> Result<Option<String>, Error> {
    const FIND: &str = "SELECT CASE WHEN has_schema_privilege(n.oid, 'USAGE') \
                                     AND has_table_privilege(c.oid, 'SELECT') \
                                     AND has_table_privilege(c.oid, 'DELETE') THEN NULL \
               ELSE format('the role lacks rights, and inbox.retention is set; run as the table''s \
                            owner: GRANT USAGE ON SCHEMA postrider TO %1$I; \
                            GRANT SELECT, DELETE ON postrider.inbox TO %1$I', current_user) END \
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = 'postrider' AND c.relname = 'inbox' AND c.relkind = 'r'";
    match client.query_opt(FIND, &[]).await? {
        Some(row) => row.try_get(0),
        None => Ok(Some("the table is missing; run `postrider migrate`".to_owned())),
    }
}

/// Deletes at most a batch; returns the number of deleted rows.
pub(super) async fn clean(
    client: &Client,
    retention_seconds: f64,
    batch: i64,
) -> Result<u64, Error> {
    const CLEAN: &str = "DELETE FROM postrider.inbox WHERE ctid = ANY(ARRAY( \
        SELECT ctid FROM postrider.inbox \
         WHERE claimed_at < now() - $1::float8 * interval '1 second' LIMIT $2))";
    client.execute(CLEAN, &[&retention_seconds, &batch]).await
}
