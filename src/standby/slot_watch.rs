//! Asks Postgres for a sign of life, and reads the slot's position on the server, for the metrics.
//! Takes the lock that shows that this relay is running if another program had it. Where nobody
//! polls the side table, it also looks for events of slots that are gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_postgres::{Client, Error};
use tracing::Instrument;

use super::liveness;
use crate::clock;
use crate::ops::{Metrics, SlotPosition, Vitals};
use crate::parking::store::{LoggedOrphans, orphans};
use crate::postgres::describe;
use crate::pulse::{ASK_EVERY, Pulse};
use crate::rights::{Access, check_access_to};
use postrider_core::parking::Orphans;

/// How often the slot is checked.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How often events of slots that are gone are looked for.
const ORPHANS_EVERY: Duration = Duration::from_secs(60);
/// Looking for them must not take long: the sign of life waits on the same connection.
const BEGIN_BRIEFLY: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = '1s'";

/// Looks for parked events of slots that are gone.
pub(crate) struct OrphanWatch {
    metrics: Metrics,
    logged: LoggedOrphans,
    /// An earlier session has logged what is found first.
    quiet: bool,
    looked_at: Option<Instant>,
}

impl OrphanWatch {
    pub(crate) fn new(metrics: Metrics, quiet: bool) -> Self {
        OrphanWatch { metrics, logged: LoggedOrphans::default(), quiet, looked_at: None }
    }

    async fn find_orphans(&mut self, client: &Client, slot: &str) -> Result<(), Error> {
        if self.looked_at.is_some_and(|at| at.elapsed() < ORPHANS_EVERY) {
            return Ok(());
        }
        self.looked_at = Some(Instant::now());
        let Some(found) = visible_orphans(client, slot).await? else { return Ok(()) };
        self.metrics.set_orphaned(&found);
        if std::mem::take(&mut self.quiet) {
            self.logged.note(found);
        } else {
            self.logged.log_new(found);
        }
        Ok(())
    }
}

/// None: not known now. The query may take too long, and a role that never parks need not have the
/// right to read the side table.
async fn visible_orphans(client: &Client, slot: &str) -> Result<Option<Vec<Orphans>>, Error> {
    let looking = async {
        match check_access_to(client, Access::FindOrphans).await? {
            None => orphans(client, slot).await.map(Some),
            Some(_) => Ok(None),
        }
    };
    client.batch_execute(BEGIN_BRIEFLY).await?;
    let found = looking.await;
    client.batch_execute("ROLLBACK").await?;
    match found {
        // Not a reason to stop asking for a sign of life.
        Err(error) if error.as_db_error().is_some() => {
            tracing::debug!(error = %describe(&error), "can't look for events of slots that are gone");
            Ok(None)
        }
        found => found,
    }
}

/// The watching ends when this value is dropped.
pub(crate) struct SlotWatch(JoinHandle<()>);

impl SlotWatch {
    /// `is_lock_held`: the session holds the lock.
    pub(crate) fn start(
        client: Client,
        slot: String,
        is_lock_held: bool,
        vitals: Arc<Vitals>,
        pulse: Arc<Pulse>,
        orphans: Option<OrphanWatch>,
    ) -> Self {
        let watching = async move {
            // The relay's loop notices a lost connection in its own way.
            if let Err(error) = watch(&client, &slot, is_lock_held, &vitals, &pulse, orphans).await
            {
                tracing::debug!(error = %describe(&error), "slot watch");
            }
            // The client lives as long as the session: without it the connection would end.
            std::future::pending::<()>().await;
            drop(client);
        };
        SlotWatch(tokio::spawn(watching.in_current_span()))
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
    mut is_lock_held: bool,
    vitals: &Vitals,
    pulse: &Pulse,
    mut orphans: Option<OrphanWatch>,
) -> Result<(), Error> {
    let question = client.prepare(clock::QUESTION).await?;
    let mut tick = tokio::time::interval(ASK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked_at: Option<Instant> = None;
    loop {
        tick.tick().await;
        pulse.ask(client, &question, vitals).await?;
        if !is_lock_held {
            is_lock_held = liveness::try_hold(client, slot).await?;
        }
        if looked_at.is_none_or(|at| at.elapsed() >= CHECK_EVERY) {
            vitals.set_slot(slot_position(client, slot).await?);
            looked_at = Some(Instant::now());
        }
        if let Some(orphans) = &mut orphans {
            orphans.find_orphans(client, slot).await?;
        }
    }
}

pub(crate) async fn slot_position(client: &Client, slot: &str) -> Result<SlotPosition, Error> {
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
