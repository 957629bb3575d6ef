//! The slot: whether it exists, is postrider's, and has the log it needs.

use tokio_postgres::types::PgLsn;
use tokio_postgres::{Client, Error};

use super::Finding;
use crate::config::PostgresConfig;
use crate::progress::{self, Gap, LostBy};
use crate::rights::{Access, check_access_to};
use crate::session_end::{RestartReason, SessionEnd};
use postrider_core::lsn::Lsn;

/// A slot of ours that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// It has all the log it needs.
    Whole,
    /// The server has invalidated it.
    Lost(LostBy),
}

/// What the server has under a slot's name.
pub(crate) struct Slot {
    /// Its plugin, or `physical`.
    kind: String,
    /// Slots belong to the server, so their names are shared by all databases. None: a physical
    /// one.
    database: Option<String>,
    /// The database that was asked.
    here: String,
    state: SlotState,
    is_two_phase: bool,
}

impl Slot {
    pub(crate) async fn look_up(client: &Client, name: &str) -> Result<Option<Self>, Error> {
        const SQL: &str = "select coalesce(plugin::text, slot_type), database::text, \
                    current_database()::text, coalesce(wal_status, '') = 'lost', two_phase, \
                    to_jsonb(s) ->> 'invalidation_reason' \
               from pg_replication_slots s where slot_name = $1";
        let Some(row) = client.query_opt(SQL, &[&name]).await? else { return Ok(None) };
        let by = LostBy::from_server(row.try_get(5)?);
        let state = if row.try_get(3)? { SlotState::Lost(by) } else { SlotState::Whole };
        Ok(Some(Slot {
            kind: row.try_get(0)?,
            database: row.try_get(1)?,
            here: row.try_get(2)?,
            state,
            is_two_phase: row.try_get(4)?,
        }))
    }

    /// Whether it is of our kind, and of this database.
    pub(crate) fn check_kind(&self, name: &str) -> Result<(), Finding> {
        let Slot { kind, database, here, .. } = self;
        if kind != "pgoutput" {
            return Err(Finding::new(
                format!("slot \"{name}\" is of kind {kind}, not pgoutput"),
                "postrider reads no other",
                "choose another name for postgres.slot, or drop this one and run `postrider \
                 migrate`",
            ));
        }
        if let Some(database) = database.as_ref().filter(|database| *database != here) {
            return Err(Finding::new(
                format!("slot \"{name}\" belongs to database {database}, not to {here}"),
                "slot names are unique per server, not per database",
                "choose another name for postgres.slot, or connect to that database in \
                 postgres.url",
            ));
        }
        Ok(())
    }

    /// Whether it can be ours, and in what state it is.
    pub(crate) fn judge(&self, name: &str) -> Result<SlotState, Finding> {
        self.check_kind(name)?;
        if self.is_two_phase {
            return Err(Finding::new(
                format!("slot \"{name}\" has two_phase enabled"),
                "it delivers prepared transactions before they commit",
                "choose another name for postgres.slot, or drop this one and run `postrider \
                 migrate`",
            ));
        }
        Ok(self.state)
    }
}

/// Looks for the slot. A slot of that name that can't be ours is an error.
pub(crate) async fn find_slot(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Option<SlotState>, SessionEnd> {
    let slot = Slot::look_up(client, &config.slot).await?;
    Ok(slot.map(|slot| slot.judge(&config.slot)).transpose()?)
}

/// Whether a relay can read the slot.
pub(crate) async fn check_slot(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Result<(), Finding>, Error> {
    let name = &config.slot;
    let found = match Slot::look_up(client, name).await? {
        None if has_progress(client, name).await? => {
            return Ok(Err(Gap::Missing { slot: name.clone() }.into()));
        }
        None => {
            return Ok(Err(Finding::new(
                format!("there is no replication slot \"{name}\""),
                "the relay reads events from it",
                "run `postrider migrate` to create it",
            )));
        }
        Some(slot) => slot.judge(name),
    };
    Ok(found.and_then(|state| match state {
        SlotState::Whole => Ok(()),
        SlotState::Lost(by) => Err(Gap::Lost { slot: name.clone(), by }.into()),
    }))
}

/// Whether progress of the slot is stored. False if the role is not allowed to look.
async fn has_progress(client: &Client, slot: &str) -> Result<bool, Error> {
    match check_access_to(client, Access::Progress).await? {
        Some(_) => Ok(false),
        None => Ok(progress::store::load(client, slot).await?.is_some()),
    }
}

/// The slot's position. To be sure of it, read it after the stream has started: then nobody else
/// can move it.
pub(crate) async fn confirmed_position(client: &Client, slot: &str) -> Result<Lsn, SessionEnd> {
    const SQL: &str = "select confirmed_flush_lsn from pg_replication_slots where slot_name = $1";
    let position: Option<PgLsn> = client.query_one(SQL, &[&slot]).await?.try_get(0)?;
    position.map(|it| Lsn::new(it.into())).ok_or_else(|| {
        let text = format!("the server reports no position for slot \"{slot}\"");
        SessionEnd::restart(RestartReason::Postgres, text)
    })
}
