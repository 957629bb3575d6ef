//! `postrider teardown`: drops what `migrate` made. The slot goes first, because it is what fills the
//! disk if it is forgotten; the outbox tables only go if asked for.
//!
//! Everything is looked at before anything is dropped. What is used, or was never ours, is refused;
//! a publication that others may read through is kept.

mod error;
mod find;
mod report;

use tokio_postgres::Client;

pub use error::TeardownError;
pub use report::{Fate, Item, Report};

use crate::config::{Config, PostgresConfig, quote_identifier};
use crate::migrate::begin_session;
use crate::postgres::{self, Connected};
use find::{Thing, find};

/// A table is waited for this long; its writers queue up behind us.
const LOCK_TIMEOUT: &str = "10s";

/// What would be dropped. Changes nothing.
pub async fn plan(config: &Config, tables: bool) -> Result<Report, TeardownError> {
    let Connected { client, guard: _guard, .. } =
        postgres::connect(&config.postgres.connection).await?;
    let things = find(&client, &config.postgres, tables).await?;
    Ok(Report { items: things.into_iter().map(|(_, item)| item).collect() })
}

/// Drops it. What is missing already is no error.
pub async fn teardown(config: &Config, tables: bool) -> Result<Report, TeardownError> {
    let Connected { mut client, guard: _guard, .. } =
        postgres::connect(&config.postgres.connection).await?;
    let failed = |error| TeardownError::statement("begin a session", &error);
    begin_session(&client).await.map_err(failed)?;
    let things = find(&client, &config.postgres, tables).await?;
    drop_slot(&client, &config.postgres, &things).await?;
    drop_rest(&mut client, &config.postgres, &things).await?;
    let dropped = |(_, item): (Thing, Item)| item.done();
    Ok(Report { items: things.into_iter().map(dropped).collect() })
}

/// Outside of a transaction: slots know none.
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
    client: &mut Client,
    wanted: &PostgresConfig,
    things: &[(Thing, Item)],
) -> Result<(), TeardownError> {
    let mut statements = vec![format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")];
    for (thing, _) in things.iter().filter(|(_, item)| item.fate == Fate::Drop) {
        match thing {
            Thing::Slot => {}
            Thing::Publication => {
                let name = quote_identifier(&wanted.publication);
                statements.push(format!("DROP PUBLICATION {name}"));
            }
            // Not CASCADE: somebody's view of our state is not ours to drop.
            Thing::Schema { tables, functions } => {
                statements.extend(tables.as_ref().map(|tables| format!("DROP TABLE {tables}")));
                let functions = functions.as_ref();
                statements.extend(functions.map(|names| format!("DROP FUNCTION {names}")));
                statements.push("DROP SCHEMA postrider".to_owned());
            }
            Thing::Table(table) => statements.push(format!("DROP TABLE {}", table.quoted())),
        }
    }
    let failed = |error| TeardownError::statement("run a transaction", &error);
    let transaction = client.transaction().await.map_err(failed)?;
    for statement in &statements {
        let failed = |error| TeardownError::statement(format!("run {statement}"), &error);
        transaction.batch_execute(statement).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}
