//! Parked events follow their table when it is renamed: its name is needed to find the value of a
//! large event, to recognize a row that is parked, and to park the same event only once.

use tokio_postgres::Client;

use super::store::follow_rename;
use crate::config::PostgresConfig;
use crate::progress::coverage;
use crate::rights::{Access, check_access_to};
use crate::session_end::SessionEnd;

/// To be called before the promise is stored under the current names, because only the stored
/// promise has the earlier ones. A role that never parks need not have the rights.
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
