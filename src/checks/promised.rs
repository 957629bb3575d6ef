//! What is promised for the slot: tables, and events without a table. A relay that does not read it
//! would skip it unnoticed.

use tokio_postgres::{Client, Error};

use super::Finding;
use crate::config::PostgresConfig;
use crate::progress::store::has_promised_messages;
use crate::progress::{self, Gap, Promise, Unsent, coverage};
use crate::rights::{Access, check_access_to};

/// Applications rely on what they emit being published.
pub(crate) async fn check_promised(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Result<(), Finding>, Error> {
    let slot = &config.slot;
    if config.messages.is_some() || !has_promised_messages(client, slot).await? {
        return Ok(Ok(()));
    }
    Ok(Err(Finding::new(
        format!(
            "slot \"{slot}\" has promised to publish events without a table (postrider.emit), but \
             postgres.messages is not true"
        ),
        "they would be lost",
        "set postgres.messages = true; to stop publishing such events, let a relay with that \
         setting read what was written, then run `postrider migrate --withdraw messages`; from \
         then on postrider.emit fails",
    )))
}

/// A new slot begins after the promise was made: rows of tables that are not read now would be left
/// out for good.
pub(super) async fn refuse_unread(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Result<(), Finding>, Error> {
    let promises = promises(client, config).await?;
    if let Some(unsent) = Unsent::find(&config.slot, &config.publication, &promises) {
        return Ok(Err(unsent.into()));
    }
    let unread = progress::unread(&promises);
    let tables = match unread.as_slice() {
        [] => return Ok(Ok(())),
        [table] => format!("table {table} is"),
        tables => format!("tables {} are", tables.join(", ")),
    };
    Ok(Err(Finding::new(
        format!("{tables} promised for slot \"{}\", but not in postgres.tables", config.slot),
        "a new slot would leave out some of their rows",
        progress::fix_unread(&unread),
    )))
}

/// The promises for the slot that this configuration does not read. Empty if the role is not
/// allowed to look.
pub(crate) async fn unread_by(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Vec<String>, Error> {
    if check_access_to(client, Access::Progress).await?.is_some() {
        return Ok(Vec::new());
    }
    let mut unread = progress::unread(&promises(client, config).await?);
    if config.messages.is_none() && has_promised_messages(client, &config.slot).await? {
        unread.push("events without a table".to_owned());
    }
    Ok(unread)
}

/// The promises for the slot. Empty if the role is not allowed to look.
async fn promises(client: &Client, config: &PostgresConfig) -> Result<Vec<Promise>, Error> {
    match check_access_to(client, Access::Progress).await? {
        Some(_) => Ok(Vec::new()),
        None => {
            let (slot, names) = (&config.slot, config.table_names());
            coverage::find_promises(client, slot, &config.publication, &names).await
        }
    }
}

/// The given problem with a table, unless the table was promised: then rows may be missing, which
/// matters more.
pub(super) async fn or_lapse(
    client: &Client,
    config: &PostgresConfig,
    otherwise: Finding,
) -> Result<Finding, Error> {
    let lapses = progress::lapses(&promises(client, config).await?, false);
    Ok(if lapses.is_empty() {
        otherwise
    } else {
        Gap::Lapse { slot: config.slot.clone(), lapses }.into()
    })
}
