//! `postrider teardown`: drops what `migrate` created. The slot is dropped first, because a
//! forgotten slot fills the disk; the outbox tables are dropped only on request.
//!
//! Everything is checked before anything is dropped. A slot that is in use, or is not postrider's,
//! is refused. A publication that others may read through is kept, without the tables that only
//! this relay reads. Several relays in one database share schema `postrider`, and often the
//! publication: these are dropped with the last relay.

mod error;
mod find;
mod report;
mod stored;

use tokio_postgres::{Client, Transaction};

pub(crate) use error::TeardownError;
pub(crate) use report::{Fate, Item, Report};

use super::migrate::{begin_session, lock, unpublish};
use crate::config::{Config, PostgresConfig, quote_identifier};
use crate::postgres::{self, Connected};
use find::{Found, Thing, find};
use stored::Stored;

/// How long to wait for a lock on a table: its writers have to wait meanwhile.
const LOCK_TIMEOUT: &str = "10s";

/// What would be dropped. Changes nothing.
pub(crate) async fn plan(config: &Config, tables: bool) -> Result<Report, TeardownError> {
    let Connected { client, guard: _guard, .. } =
        postgres::connect(&config.postgres.connection).await?;
    let Found { things, .. } = find(&client, &config.postgres, tables).await?;
    Ok(Report { items: things.into_iter().map(|(_, item)| item).collect() })
}

/// Drops it. It is not an error if something is already missing.
pub(crate) async fn teardown(config: &Config, tables: bool) -> Result<Report, TeardownError> {
    let Connected { mut client, guard: _guard, .. } =
        postgres::connect(&config.postgres.connection).await?;
    begin_session(&client).await.map_err(TeardownError::of_command_lock)?;
    let failed = |error| TeardownError::statement("run a transaction", &error);
    // One transaction, for which other commands of this kind wait. Slots are not transactional: a
    // dropped slot stays dropped.
    let transaction = client.transaction().await.map_err(failed)?;
    lock(transaction.client()).await.map_err(failed)?;
    let found = find(transaction.client(), &config.postgres, tables).await?;
    drop_slot(transaction.client(), &config.postgres, &found.things).await?;
    drop_rest(&transaction, &config.postgres, &found).await?;
    transaction.commit().await.map_err(failed)?;
    let Found { things, .. } = found;
    let dropped = |(_, item): (Thing, Item)| item.done();
    Ok(Report { items: things.into_iter().map(dropped).collect() })
}

async fn drop_slot(
    client: &Client,
    wanted: &PostgresConfig,
    things: &[(Thing, Item)],
) -> Result<(), TeardownError> {
    let drops = |(thing, item): &(Thing, Item)| *thing == Thing::Slot && item.fate == Fate::Drop;
    if !things.iter().any(drops) {
        return Ok(());
    }
    let slot = &wanted.slot;
    match client.execute("SELECT pg_drop_replication_slot($1)", &[slot]).await {
        Ok(_) => Ok(()),
        Err(error) => Err(TeardownError::of_slot(slot, &error)),
    }
}

async fn drop_rest(
    transaction: &Transaction<'_>,
    wanted: &PostgresConfig,
    found: &Found,
) -> Result<(), TeardownError> {
    run(transaction, &format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")).await?;
    for (thing, _) in found.things.iter().filter(|(_, item)| item.fate == Fate::Drop) {
        match thing {
            Thing::Slot => {}
            Thing::Publication => {
                let name = quote_identifier(&wanted.publication);
                run(transaction, &format!("DROP PUBLICATION {name}")).await?;
            }
            Thing::Rows => delete_rows(transaction, &found.stored, &wanted.slot).await?,
            Thing::Entry(outbox) => take_out(transaction, &wanted.publication, *outbox).await?,
            // Not CASCADE, which would also drop views that others have created on our tables.
            Thing::Schema { tables, functions } => {
                refuse_newcomers(transaction, &found.stored, &wanted.slot).await?;
                if let Some(tables) = tables {
                    run(transaction, &format!("DROP TABLE {tables}")).await?;
                }
                if let Some(functions) = functions {
                    run(transaction, &format!("DROP FUNCTION {functions}")).await?;
                }
                run(transaction, "DROP SCHEMA postrider").await?;
            }
            Thing::Table(table) => {
                run(transaction, &format!("DROP TABLE {}", table.quoted())).await?;
            }
        }
    }
    Ok(())
}

async fn run(transaction: &Transaction<'_>, statement: &str) -> Result<(), TeardownError> {
    let failed = |error| TeardownError::statement(format!("run {statement}"), &error);
    transaction.batch_execute(statement).await.map_err(failed)
}

async fn delete_rows(
    transaction: &Transaction<'_>,
    stored: &Stored,
    slot: &str,
) -> Result<(), TeardownError> {
    for statement in stored.delete_statements() {
        let failed = |error| TeardownError::statement(format!("run {statement}"), &error);
        transaction.execute(&statement, &[&slot]).await.map_err(failed)?;
    }
    Ok(())
}

/// Removes a table from a publication that others read through. Another relay may have begun to
/// read it.
async fn take_out(
    transaction: &Transaction<'_>,
    publication: &str,
    outbox: u32,
) -> Result<(), TeardownError> {
    let what = format!("remove a table from publication {publication}");
    let taken = unpublish(transaction, publication, outbox).await;
    match taken.map_err(|error| TeardownError::statement(what, &error))? {
        Some((_, Some(newcomer))) => Err(TeardownError::Newcomer { newcomer }),
        _ => Ok(()),
    }
}

/// Another relay may have begun to store something since the check. Its events must not be deleted
/// with ours.
async fn refuse_newcomers(
    transaction: &Transaction<'_>,
    stored: &Stored,
    slot: &str,
) -> Result<(), TeardownError> {
    if let Some(lock) = stored.lock_statement() {
        run(transaction, &lock).await?;
    }
    match stored.others_now(transaction, slot).await?.first() {
        Some(newcomer) => Err(TeardownError::Newcomer { newcomer: newcomer.clone() }),
        None => Ok(()),
    }
}
