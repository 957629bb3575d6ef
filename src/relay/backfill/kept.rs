//! A slot that stays while rows are published from the tables: it is whole, and has events without a
//! table that nobody has read and that are nowhere else (ADR 20).
//!
//! What was committed before the snapshot is read from the tables, and everything from the slot's own
//! position on comes out of the slot afterwards: rows a second time, messages for the first. A
//! transaction that was open when the table came back into the publication is not wholly in the slot,
//! so the snapshot is taken once all of these are over. Making a slot waits for the same.

use std::time::Duration;

use tokio_postgres::Client;

use crate::config::PostgresConfig;
use crate::lsn::Lsn;
use crate::progress::store::predates_publication;
use crate::relay::preflight::{self, Found};
use crate::relay::stop::Stop;

/// How often open transactions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where the slot stands. None: it was lost since, and with it what only it had.
pub(super) async fn find(client: &Client, config: &PostgresConfig) -> Result<Option<Lsn>, Stop> {
    let slot = &config.slot;
    if preflight::find_slot(client, config).await? != Some(Found::Whole) {
        tracing::warn!(slot, "the slot was lost, and events without a table that were only in it");
        return Ok(None);
    }
    if predates_publication(client, slot, &config.publication).await? {
        return Err(unreadable(slot, &config.publication));
    }
    Ok(Some(preflight::confirmed_position(client, slot).await?))
}

/// Messages are in the slot, and can't be had.
pub(in crate::relay) fn unreadable(slot: &str, publication: &str) -> Stop {
    Stop::halt(
        format!(
            "slot \"{slot}\" may have events without a table (postrider.emit) that were not published, \
             and it can't be read: publication \"{publication}\" was created after them; nothing was \
             changed"
        ),
        "to give these events up, run `postrider recover --give-up-messages`: it drops the slot, makes a \
         new one, and publishes from the tables what may be missing",
    )
}

/// Waits until all transactions are over that are open now.
pub(super) async fn await_open_transactions(client: &Client) -> Result<(), Stop> {
    const NEXT: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";
    const ARE_OVER: &str = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8";
    let next: String = client.query_one(NEXT, &[]).await?.try_get(0)?;
    while !client.query_one(ARE_OVER, &[&next]).await?.try_get::<_, bool>(0)? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
