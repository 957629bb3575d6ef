//! The session of a command that changes the database: alone, and with settings of its own.

use std::time::Duration;

use tokio_postgres::{Client, Error};

/// Held by one such command per database at a time; the number is arbitrary ("postride" in ASCII).
pub(super) const ADVISORY_LOCK: i64 = 0x706f_7374_7269_6465;

/// Names are qualified everywhere; a search path of the database's own could only mislead them.
pub(super) const SETTINGS: &str = "SET synchronous_commit = on; SET statement_timeout = 0; \
    SET lock_timeout = 0; SET search_path = pg_catalog, pg_temp";

/// How long something may be waited for without a word.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Returns once no other command of this kind is at work.
pub(crate) async fn begin(client: &Client) -> Result<(), Error> {
    client.batch_execute(SETTINGS).await?;
    let locked = client.query_one("SELECT pg_advisory_lock($1)", &[&ADVISORY_LOCK]);
    let why = "waiting for another `postrider migrate` or `teardown` on this database to end";
    patiently(locked, why).await?;
    Ok(())
}

/// Awaits something that others can delay, and says so if they do.
pub(crate) async fn patiently<T>(work: impl Future<Output = T>, why: &str) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE_MAX) => tracing::warn!("{why}"),
    }
    work.await
}
