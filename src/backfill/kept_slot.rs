//! A slot that is kept while rows are published from the tables: it is whole, and may be the only
//! place of events that nobody has read, which are events without a table and rows that were
//! deleted (ADR 20). A slot that was created for the job is kept too, whether `migrate` created it
//! or an attempt that was interrupted.
//!
//! Rows that were committed before the snapshot are read from the tables. Afterwards everything
//! from the slot's own position on is read from the slot: rows for the second time, messages for
//! the first. A transaction that was open when the table joined the publication, or came back into
//! it, is not completely in the slot, so the snapshot is taken once all of these have ended.
//! Creating a slot waits for the same.

use std::time::Duration;

use tokio_postgres::Client;

use super::Job;
use crate::checks::{self, SlotState};
use crate::config::PostgresConfig;
use crate::postgres::publication_mark_query;
use crate::progress::store::predates_publication;
use crate::session_end::SessionEnd;
use postrider_core::lsn::Lsn;

/// How often to check whether transactions have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The slot's position. None: it was lost since, with everything that only it had.
pub(crate) async fn find(
    client: &Client,
    config: &PostgresConfig,
    job: &Job,
) -> Result<Option<Lsn>, SessionEnd> {
    let slot = &config.slot;
    if checks::find_slot(client, config).await? != Some(SlotState::Whole) {
        // Otherwise it was about to be created when the attempt was interrupted.
        if job.keeps_slot {
            tracing::warn!(
                slot,
                "the slot was lost, and with it what only it had: events without a table, and \
                rows that were deleted"
            );
        }
        return Ok(None);
    }
    // A slot that an attempt has created is younger than the publication, as long as the
    // publication is the same.
    let is_younger = job.made_for.is_some()
        && job.made_for == publication_mark(client, &config.publication).await?;
    if !is_younger && predates_publication(client, slot, &config.publication).await? {
        return match config.messages {
            Some(_) => Err(unreadable(slot, &config.publication)),
            None => {
                tracing::warn!(
                    slot,
                    publication = config.publication,
                    "the slot is older than the publication and can't be read; creating a new \
                    one. Rows that were written and deleted in the meantime are lost"
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

/// The slot may have messages, but can't be read.
pub(super) fn unreadable(slot: &str, publication: &str) -> SessionEnd {
    SessionEnd::fatal(
        format!(
            "slot \"{slot}\" may have events without a table (postrider.emit) that were not \
             published, but it can't be read, because publication \"{publication}\" was created \
             after them; nothing was changed"
        ),
        "to give these events up, run `postrider recover --give-up-messages`: it drops the slot, \
         creates a new one, and publishes the tables' rows that may be missing",
    )
}

/// Waits until all transactions that are open now have ended.
pub(crate) async fn await_open_transactions(client: &Client) -> Result<(), SessionEnd> {
    const NEXT: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";
    const ARE_OVER: &str = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8";
    let next: String = client.query_one(NEXT, &[]).await?.try_get(0)?;
    while !client.query_one(ARE_OVER, &[&next]).await?.try_get::<_, bool>(0)? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
