//! Looks at the slot from the server's side now and then, for the metrics.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::ops::{SlotPosition, Vitals};

pub(super) const EVERY: Duration = Duration::from_secs(5);

/// Ends with this value.
pub(super) struct SlotWatch(JoinHandle<()>);

impl SlotWatch {
    pub(super) fn start(client: Client, slot: String, vitals: Arc<Vitals>) -> Self {
        SlotWatch(tokio::spawn(async move {
            let mut tick = tokio::time::interval(EVERY);
            loop {
                tick.tick().await;
                match look(&client, &slot).await {
                    Ok(position) => vitals.set_slot(position),
                    // The loop hears of a lost connection by itself.
                    Err(error) => {
                        tracing::debug!(error = %crate::postgres::describe(&error), "slot watch");
                        return std::future::pending().await;
                    }
                }
            }
        }))
    }
}

impl Drop for SlotWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) async fn look(
    client: &Client,
    slot: &str,
) -> Result<SlotPosition, tokio_postgres::Error> {
    let row = client
        .query_one(
            "select coalesce(pg_current_wal_lsn() - restart_lsn, 0)::bigint, \
                    coalesce(pg_current_wal_lsn() - confirmed_flush_lsn, 0)::bigint, \
                    safe_wal_size \
               from pg_replication_slots where slot_name = $1",
            &[&slot],
        )
        .await?;
    Ok(SlotPosition {
        retained_bytes: row.try_get(0)?,
        unconfirmed_bytes: row.try_get(1)?,
        safe_bytes: row.try_get(2)?,
    })
}
