//! The slot: whether it is there, ours, and where it stands.

use tokio_postgres::Client;

use super::preflight::parse_lsn;
use crate::config::PostgresConfig;
use crate::parking::store::{Access, check_access_to};
use crate::progress::{self, Gap, LostBy};
use crate::session_end::SessionEnd;
use postrider_core::lsn::Lsn;

pub(crate) async fn check_slot(client: &Client, config: &PostgresConfig) -> Result<(), SessionEnd> {
    let slot = &config.slot;
    match find_slot(client, config).await? {
        Some(Found::Whole) => Ok(()),
        Some(Found::Lost(by)) => Err(Gap::Lost { slot: slot.clone(), by }.into()),
        None if has_progress(client, slot).await? => {
            Err(Gap::Missing { slot: slot.clone() }.into())
        }
        None => Err(SessionEnd::fatal(
            format!("there is no replication slot \"{slot}\""),
            "run `postrider migrate` to create it",
        )),
    }
}

/// A slot that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// With all the log it needs.
    Whole,
    /// The server has given it up.
    Lost(LostBy),
}

/// Looks for the slot. One of that name that can't be ours is refused.
pub(crate) async fn find_slot(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Option<Found>, SessionEnd> {
    let slot = &config.slot;
    let row = client
        .query_opt(
            "select plugin::text, database::text, database = current_database(), \
                    coalesce(wal_status, '') = 'lost', two_phase, \
                    to_jsonb(s) ->> 'invalidation_reason' \
               from pg_replication_slots s where slot_name = $1",
            &[slot],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let plugin: Option<String> = row.try_get(0)?;
    if plugin.as_deref() != Some("pgoutput") {
        let plugin = plugin.unwrap_or_else(|| "physical".to_owned());
        return Err(SessionEnd::fatal(
            format!("slot \"{slot}\" is of kind {plugin}, not pgoutput"),
            "name another slot in postgres.slot, or drop this one and run `postrider migrate`",
        ));
    }
    if row.try_get::<_, Option<bool>>(2)? != Some(true) {
        let database: Option<String> = row.try_get(1)?;
        return Err(SessionEnd::fatal(
            format!("slot \"{slot}\" belongs to database {}", database.unwrap_or_default()),
            "connect to that database in postgres.url, or name another slot in postgres.slot",
        ));
    }
    if row.try_get(4)? {
        return Err(SessionEnd::fatal(
            format!(
                "slot \"{slot}\" was made for two-phase commit: it has rows before they commit"
            ),
            "name another slot in postgres.slot, or drop this one and run `postrider migrate`",
        ));
    }
    let reason: Option<String> = row.try_get(5)?;
    let by = LostBy::from_server(reason.as_deref());
    Ok(Some(if row.try_get(3)? { Found::Lost(by) } else { Found::Whole }))
}

/// Whether something is stored of the slot. Who may not look does not know.
async fn has_progress(client: &Client, slot: &str) -> Result<bool, SessionEnd> {
    match check_access_to(client, Access::Progress).await? {
        Some(_) => Ok(false),
        None => Ok(progress::store::load(client, slot).await?.is_some()),
    }
}

/// Where the slot stands. To be sure of it, read it after the stream has started: nobody else can
/// move it then.
pub(crate) async fn confirmed_position(client: &Client, slot: &str) -> Result<Lsn, SessionEnd> {
    let row = client
        .query_one(
            "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = $1",
            &[&slot],
        )
        .await?;
    let text: Option<String> = row.try_get(0)?;
    parse_lsn(text)
}
