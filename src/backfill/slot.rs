//! The slot that is read once the rows of the tables are published: one that is kept, or a new one.
//!
//! A slot is kept if it is whole: it may be the only place of events that nobody has read, which
//! are events without a table and rows that were deleted (ADR 20). A slot that was created for the
//! job is kept too, whether `migrate` created it or an attempt that was interrupted.
//!
//! Rows that were committed before the snapshot are read from the tables. Afterwards everything
//! from the slot's own position on is read from the slot: rows for the second time, messages for
//! the first. A transaction that was open when the table joined the publication, or came back into
//! it, is not completely in the slot, so the snapshot is taken once all of these have ended.
//! Creating a slot waits for the same.

use std::time::Duration;

use tokio_postgres::Client;

use super::Job;
use super::run::{lapsed, overtaken};
use super::store::Attempt;
use crate::checks::{self, SlotState};
use crate::config::PostgresConfig;
use crate::postgres::{Server, can_fail_over, log_while_waiting, publication_mark_query};
use crate::progress::Identity;
use crate::progress::store::predates_publication;
use crate::replication::{NewSlot, identity};
use crate::session_end::SessionEnd;
use postrider_core::lsn::Lsn;

/// How often to check whether transactions have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Creating a slot waits for them, and so does the relay if a slot is kept.
const OPEN_TRANSACTIONS: &str = "waiting for open transactions to end \
    (see pg_stat_activity, column xact_start, and pg_prepared_xacts)";

/// A slot, and the snapshot before it.
pub(super) enum JobSlot {
    /// Transactions that were open have ended: the present state is the snapshot.
    Kept { here: Identity, starts_at: Lsn },
    /// It was created with its snapshot.
    New(NewSlot),
}

impl JobSlot {
    /// The server that has it.
    pub(super) fn here(&self) -> &Identity {
        match self {
            JobSlot::Kept { here, .. } => here,
            JobSlot::New(slot) => &slot.here,
        }
    }

    /// Where it begins.
    pub(super) fn starts_at(&self) -> Lsn {
        match self {
            JobSlot::Kept { starts_at, .. } => *starts_at,
            JobSlot::New(slot) => slot.starts_at,
        }
    }

    /// A snapshot that other sessions can use as long as this lives.
    pub(super) fn snapshot(&self) -> Option<&str> {
        match self {
            JobSlot::Kept { .. } => None,
            JobSlot::New(slot) => Some(&slot.snapshot),
        }
    }
}

/// The slot of a job: its own, if that can be kept, or a new one. Waits for transactions that are
/// open now.
pub(super) async fn keep_or_make(
    client: &Client,
    server: &Server,
    config: &PostgresConfig,
    job: &Job,
    attempt: &Attempt,
) -> Result<JobSlot, SessionEnd> {
    let kept = if job.keeps_slot || job.made_for.is_some() {
        find(client, config, job).await?
    } else {
        None
    };
    let Some(starts_at) = kept else {
        // A slot that an earlier attempt created and could not keep, or one that was lost.
        attempt.drop_slot(client).await?.ok_or_else(overtaken)?;
        return Ok(JobSlot::New(make(client, server, config, attempt).await?));
    };
    if !attempt.keep_slot(client).await? {
        return Err(overtaken());
    }
    log_while_waiting(await_open_transactions(client), OPEN_TRANSACTIONS).await?;
    Ok(JobSlot::Kept { here: identity(server).await?, starts_at })
}

/// The slot's position. None: it was lost since, with everything that only it had.
async fn find(
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
                "the slot was lost, together with everything that only it contained: events \
                 without a table, and rows that were deleted"
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

/// Creates the slot. It is kept from then on, because only it has events without a table, and rows
/// that are deleted soon after they were written.
async fn make(
    client: &Client,
    server: &Server,
    config: &PostgresConfig,
    attempt: &Attempt,
) -> Result<NewSlot, SessionEnd> {
    let PostgresConfig { slot, publication, .. } = config;
    let can_fail_over = can_fail_over(client).await?;
    let Some(made_for) = publication_mark(client, publication).await? else {
        return Err(lapsed());
    };
    if !attempt.note_made_for(client, &made_for).await? {
        return Err(overtaken());
    }
    let made =
        log_while_waiting(NewSlot::create(server, slot, can_fail_over), OPEN_TRANSACTIONS).await?;
    if attempt.keep_slot(client).await? { Ok(made) } else { Err(overtaken()) }
}

/// See [`publication_mark_query`]; `None` if the publication does not exist.
async fn publication_mark(
    client: &Client,
    publication: &str,
) -> Result<Option<String>, SessionEnd> {
    let row = client.query_opt(&publication_mark_query("$1"), &[&publication]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Whether the slot can be kept, because it can still be read. What only it has would be lost with
/// it: events without a table, and rows that were deleted since.
pub(super) async fn can_keep(
    client: &Client,
    config: &PostgresConfig,
    state: Option<SlotState>,
) -> Result<bool, SessionEnd> {
    if state != Some(SlotState::Whole) {
        return Ok(false);
    }
    match predates_publication(client, &config.slot, &config.publication).await? {
        true if config.messages.is_some() => Err(unreadable(&config.slot, &config.publication)),
        is_unreadable => Ok(!is_unreadable),
    }
}

/// The slot may have messages, but can't be read.
fn unreadable(slot: &str, publication: &str) -> SessionEnd {
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
async fn await_open_transactions(client: &Client) -> Result<(), SessionEnd> {
    const NEXT: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";
    const ARE_OVER: &str = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8";
    let next: String = client.query_one(NEXT, &[]).await?.try_get(0)?;
    while !client.query_one(ARE_OVER, &[&next]).await?.try_get::<_, bool>(0)? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
