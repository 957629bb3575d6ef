//! Parked events follow their table when it is renamed: by its name the value of a large event is found, a
//! row is known to be parked, and the same event is parked once.

use tokio_postgres::Client;

use super::store::{Access, check_access_to, follow_rename};
use crate::config::PostgresConfig;
use crate::progress::coverage;
use crate::session_end::SessionEnd;

/// To be called before the promise is noted under the present names: it is what knows the earlier ones. A
/// role that never parks need not be allowed to.
pub(crate) async fn follow(client: &Client, config: &PostgresConfig) -> Result<(), SessionEnd> {
    let renames = coverage::renames(client, &config.table_names()).await?;
    if renames.is_empty() || check_access_to(client, Access::Discard).await?.is_some() {
        return Ok(());
    }
    for (from, to) in renames {
        let (from, to) = (from.to_string(), to.to_string());
        let events = follow_rename(client, &config.slot, &from, &to).await?;
        if events > 0 {
            tracing::info!(from, to, events, "a table was renamed; its parked events follow");
        }
    }
    Ok(())
}
