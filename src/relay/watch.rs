//! Asks Postgres for a sign of life, and looks at the slot from the server's side, for the metrics. Takes
//! the lock that shows this relay if a stranger had it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_postgres::Client;

use super::lock;
use super::pulse::{ASK_EVERY, Pulse};
use crate::clock;
use crate::ops::{SlotPosition, Vitals};

/// How often the slot is looked at.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// Ends with this value.
pub(super) struct SlotWatch(JoinHandle<()>);

impl SlotWatch {
    /// `is_shown`: the session has the lock.
    pub(super) fn start(
        client: Client,
        slot: String,
        is_shown: bool,
        vitals: Arc<Vitals>,
        pulse: Arc<Pulse>,
    ) -> Self {
        SlotWatch(tokio::spawn(async move {
            // The loop hears of a lost connection by itself.
            if let Err(error) = watch(&client, &slot, is_shown, &vitals, &pulse).await {
                tracing::debug!(error = %crate::postgres::describe(&error), "slot watch");
            }
            // The client lives as long as the session: without it the connection would end.
            std::future::pending::<()>().await;
            drop(client);
        }))
    }
}

impl Drop for SlotWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(
    client: &Client,
    slot: &str,
    mut is_shown: bool,
    vitals: &Vitals,
    pulse: &Pulse,
) -> Result<(), tokio_postgres::Error> {
    let question = client.prepare(clock::QUESTION).await?;
    let mut tick = tokio::time::interval(ASK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked_at: Option<Instant> = None;
    loop {
        tick.tick().await;
        pulse.ask(client, &question, vitals).await?;
        if !is_shown {
            is_shown = lock::try_hold(client, slot).await?;
        }
        if looked_at.is_none_or(|at| at.elapsed() >= EVERY) {
            vitals.set_slot(look(client, slot).await?);
            looked_at = Some(Instant::now());
        }
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
