//! A slot that stays while rows are published from the tables: it is whole, and may have what nobody has
//! read and what is nowhere else: events without a table, and rows that were deleted (ADR 20). One that
//! was made for the job stays too, whether a try that was broken off made it or `migrate`.
//!
//! What was committed before the snapshot is read from the tables, and everything from the slot's own
//! position on comes out of the slot afterwards: rows a second time, messages for the first. A
//! transaction that was open when the table joined the publication, or came back into it, is not wholly
//! in the slot, so the snapshot is taken once all of these are over. Making a slot waits for the same.

use std::time::Duration;

use tokio_postgres::Client;

use super::Job;
use crate::checks::{self, SlotState};
use crate::config::PostgresConfig;
use crate::postgres::publication_mark_query;
use crate::progress::store::predates_publication;
use crate::session_end::SessionEnd;
use postrider_core::lsn::Lsn;

/// How often open transactions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where the slot stands. None: it was lost since, and with it what only it had.
pub(crate) async fn find(
    client: &Client,
    config: &PostgresConfig,
    job: &Job,
) -> Result<Option<Lsn>, SessionEnd> {
    let slot = &config.slot;
    if checks::find_slot(client, config).await? != Some(SlotState::Whole) {
        // Else it was about to be made when the try was broken off.
        if job.keeps_slot {
            tracing::warn!(
                slot,
                "the slot was lost, and what was only in it: events without a table, and \
                rows that were deleted"
            );
        }
        return Ok(None);
    }
    // One that a try has made is younger than the publication, as long as that is the same.
    let is_younger = job.made_for.is_some()
        && job.made_for == publication_mark(client, &config.publication).await?;
    if !is_younger && predates_publication(client, slot, &config.publication).await? {
        return match config.messages {
            Some(_) => Err(unreadable(slot, &config.publication)),
            None => {
                tracing::warn!(
                    slot,
                    publication = config.publication,
                    "the slot is older than the publication, and can't be read: making a new one; rows \
                    that were written and deleted meanwhile are lost"
                );
                Ok(None)
            }
        };
    }
    Ok(Some(checks::confirmed_position(client, slot).await?))
}

/// See [`publication_mark_query`]; `None` if the publication does not exist.
pub(crate) async fn publication_mark(
    client: &Client,
    publication: &str,
) -> Result<Option<String>, SessionEnd> {
    let row = client.query_opt(&publication_mark_query("$1"), &[&publication]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Messages are in the slot, and can't be had.
pub(super) fn unreadable(slot: &str, publication: &str) -> SessionEnd {
    SessionEnd::fatal(
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
pub(crate) async fn await_open_transactions(client: &Client) -> Result<(), SessionEnd> {
    const NEXT: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";
    const ARE_OVER: &str = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8";
    let next: String = client.query_one(NEXT, &[]).await?.try_get(0)?;
    while !client.query_one(ARE_OVER, &[&next]).await?.try_get::<_, bool>(0)? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
