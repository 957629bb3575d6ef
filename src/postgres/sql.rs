//! Pieces of SQL that more than one module needs.

use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Error};

use postrider_core::lsn::Lsn;

/// Whether slots can be synchronized to standbys.
pub(crate) const CAN_FAIL_OVER: &str = "current_setting('server_version_num')::int >= 170000";

/// A string for SQL, right whatever `standard_conforming_strings` is.
pub(crate) fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// What distinguishes a publication from another one of its name, and from itself with other
/// options. The argument is an expression in SQL.
pub(crate) fn publication_mark_query(publication: &str) -> String {
    format!(
        "SELECT concat_ws(' ', b.oid, b.xmin) FROM pg_publication b WHERE b.pubname = {publication}"
    )
}

/// See [`CAN_FAIL_OVER`].
pub(crate) async fn can_fail_over(client: &Client) -> Result<bool, Error> {
    client.query_one(&format!("SELECT {CAN_FAIL_OVER}"), &[]).await?.try_get(0)
}

/// Where the log ends. Not `pg_current_wal_lsn()`: rows of asynchronous commits are visible before
/// the write position has passed them.
pub(crate) async fn log_end(client: &Client) -> Result<Lsn, Error> {
    let row = client.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?;
    Ok(Lsn::new(row.try_get::<_, PgLsn>(0)?.into()))
}
