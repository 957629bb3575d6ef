//! `postrider dead`: lists, shows, discards and takes over events in the side table.

mod error;
mod session;
mod text;

pub(crate) use error::CommandError;
pub(crate) use session::CommandSession;
pub(crate) use text::{EntryTable, details, payload_text, printable};

use super::filter::Filter;
use super::store::{self, Entry, TakeOver};
use crate::config::Config;
use crate::rights::{Access, check_access_to};
use crate::schema::has_backfill;
use postrider_core::parking::Orphans;
use postrider_core::parking::Status;

/// The statuses a row can have.
pub(crate) const STATUSES: [&str; 5] = [
    Status::Pending.label(),
    Status::Processing.label(),
    Status::Delivered.label(),
    Status::Dead.label(),
    Status::Discarded.label(),
];
/// Entries read at a time, whatever the limit.
const PAGE: u64 = 1000;
/// Rows discarded in one transaction.
const DISCARD_BATCH: u64 = 1000;

/// What a list does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotShown {
    /// How many more events match the filter than its limit allows.
    pub more: u64,
    /// Events that belong to slots that no longer exist.
    pub orphans: Vec<Orphans>,
}

/// Passes events of these statuses to `show`, a page at a time, in the order in which they were
/// parked.
pub(crate) async fn list(
    config: &Config,
    statuses: &[String],
    filter: &Filter,
    mut show: impl FnMut(&[Entry]),
) -> Result<NotShown, CommandError> {
    let session = CommandSession::open(config, "postrider dead").await?;
    let failed = |error| CommandError::statement("list events", &error);
    let slot = &config.postgres.slot;
    let mut left = filter.limit.unwrap_or(u64::MAX);
    let mut shown = 0;
    let mut after = 0;
    while left > 0 {
        let page = left.min(PAGE);
        let entries = store::list(&session.client, slot, statuses, filter, after, page).await;
        let entries = entries.map_err(failed)?;
        let Some(last) = entries.last() else { break };
        after = last.id;
        shown += entries.len() as u64;
        left -= (entries.len() as u64).min(left);
        show(&entries);
    }
    let all = store::count(&session.client, slot, statuses, filter).await.map_err(failed)?;
    // A role that can't see whether a slot is being recreated can't know which slots are gone.
    let orphans = match check_access_to(&session.client, Access::FindOrphans).await {
        Ok(None) => store::orphans(&session.client, slot).await.map_err(failed)?,
        Ok(Some(_)) => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    Ok(NotShown { more: all.saturating_sub(shown), orphans })
}

/// One event, and its value if `payload` asks for it.
pub(crate) async fn show(
    config: &Config,
    id: i64,
    payload: bool,
) -> Result<Option<(Entry, Option<Vec<u8>>)>, CommandError> {
    let session = CommandSession::open(config, "postrider dead").await?;
    let failed = |error| CommandError::statement("read the event", &error);
    let Some(entry) = store::entry(&session.client, id).await.map_err(failed)? else {
        return Ok(None);
    };
    let value =
        if payload { store::value(&session.client, id).await.map_err(failed)? } else { None };
    Ok(Some((entry, value)))
}

/// How many dead events match a filter.
pub(crate) async fn count_dead(config: &Config, filter: &Filter) -> Result<u64, CommandError> {
    let session = CommandSession::open(config, "postrider dead").await?;
    let dead = ["dead".to_owned()];
    let count = store::count(&session.client, &config.postgres.slot, &dead, filter).await;
    let count = count.map_err(|error| CommandError::statement("count events", &error))?;
    Ok(count.min(filter.limit.unwrap_or(u64::MAX)))
}

/// Discards dead events, and releases later events of their keys. Returns how many were discarded.
pub(crate) async fn discard(config: &Config, filter: &Filter) -> Result<u64, CommandError> {
    let mut session = CommandSession::open(config, "postrider dead").await?;
    session.check_access(Access::Discard).await?;
    let slot = &config.postgres.slot;
    let mut left = filter.limit.unwrap_or(u64::MAX);
    let mut discarded = 0;
    let mut after = 0;
    while left > 0 {
        let batch = left.min(DISCARD_BATCH);
        let ids = store::discard(&mut session.client, slot, filter, after, batch).await;
        let ids = ids.map_err(|error| CommandError::statement("discard events", &error))?;
        let Some(last) = ids.last() else { break };
        after = *last;
        discarded += ids.len() as u64;
        left -= (ids.len() as u64).min(left);
    }
    Ok(discarded)
}

/// Assigns the events of a slot that no longer exists to the configured one, or only returns what
/// the result would be. Also returns whether that slot has a snapshot or recovery that was
/// interrupted: its job remains stored.
pub(crate) async fn take_over(
    config: &Config,
    from: &str,
    dry_run: bool,
) -> Result<(TakeOver, bool), CommandError> {
    let failed = |error| CommandError::statement("take events over", &error);
    let mut session = CommandSession::open(config, "postrider dead").await?;
    session.check_access(if dry_run { Access::FindOrphans } else { Access::TakeOver }).await?;
    let slot = &config.postgres.slot;
    let taken = if dry_run {
        store::plan_take_over(&session.client, from, slot).await
    } else {
        store::take_over(&mut session.client, from, slot).await
    };
    let has_job = has_backfill(&session.client, from).await.map_err(failed)?;
    Ok((taken.map_err(failed)?, has_job))
}
