//! All SQL on the table `postrider.detached`: notes about partitions whose detaching has begun.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use super::table::{CleanableTable, DropWhole, Leaf};
use crate::config::TableName;
use postrider_core::cleaning::rule::OwnSlot;

/// A partition that is to be dropped.
pub(super) struct DetachNote {
    pub(super) leaf: Leaf,
    /// Its name when it was noted.
    pub(super) name: String,
    /// Whether it can be dropped, needs to be finalized, or was never detached.
    pub(super) state: DetachState,
    pub(super) uncertain_until: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DetachState {
    Gone,
    /// Another table has its OID, or it was never seen as a partition of the outbox here.
    Unknown,
    Attached,
    /// Begun and not finished.
    Pending,
    Detached,
}

pub(super) async fn delete(client: &Client, leaf: u32) -> Result<(), Error> {
    client.execute("DELETE FROM postrider.detached WHERE leaf = $1", &[&leaf]).await?;
    Ok(())
}

/// Notes the partition; returns whether it is one of the outbox's, which a trigger checks.
pub(super) async fn record(
    client: &Client,
    outbox: &CleanableTable,
    leaf: &Leaf,
    own: OwnSlot<'_>,
    uncertain_until: &str,
) -> Result<bool, Error> {
    const NOTE: &str = "INSERT INTO postrider.detached (leaf, outbox, name, floor, system_identifier) \
        SELECT $1, $2, $3, $4::text::timestamptz, system_identifier \
          FROM postrider.progress WHERE slot = $5 \
        ON CONFLICT (leaf) DO NOTHING RETURNING partition_name IS NOT NULL";
    let name = leaf.name.to_string();
    let values: [&(dyn ToSql + Sync); 5] =
        [&leaf.oid, &outbox.name, &name, &uncertain_until, &own.slot];
    client.query_opt(NOTE, &values).await?.map_or(Ok(false), |row| row.try_get(0))
}

/// Partitions whose detaching has begun. An OID proves nothing: in a restored database it can
/// belong to any table.
pub(super) async fn load(
    client: &Client,
    outbox: &CleanableTable,
    own: OwnSlot<'_>,
) -> Result<Vec<DetachNote>, Error> {
    const SQL: &str = "SELECT d.leaf, d.floor::text, n.nspname::text, c.relname::text, \
               pn.nspname::text, pc.relname::text, h.inhdetachpending, d.name, \
               coalesce(d.partition_name = format('%I.%I', n.nspname, c.relname) \
                        AND c.relkind = 'r' AND d.database = b.oid \
                        AND d.system_identifier = o.system_identifier, false) \
          FROM postrider.detached d LEFT JOIN pg_class c ON c.oid = d.leaf \
          LEFT JOIN pg_namespace n ON n.oid = c.relnamespace \
          LEFT JOIN pg_inherits h ON h.inhrelid = c.oid \
          LEFT JOIN pg_class pc ON pc.oid = h.inhparent \
          LEFT JOIN pg_namespace pn ON pn.oid = pc.relnamespace \
          LEFT JOIN pg_database b ON b.datname = current_database() \
          LEFT JOIN postrider.progress o ON o.slot = $2 \
         WHERE d.outbox = $1 ORDER BY d.noted_at";
    let table = |schema: Option<String>, name: Option<String>| match (schema, name) {
        (Some(schema), Some(name)) => Some(TableName { schema, name }),
        _ => None,
    };
    let read = |row: &tokio_postgres::Row| {
        let name = table(row.try_get(2)?, row.try_get(3)?);
        let state = match (&name, row.try_get(6)?, row.try_get(8)?) {
            (None, _, _) => DetachState::Gone,
            (_, _, false) => DetachState::Unknown,
            (_, None, true) => DetachState::Detached,
            (_, Some(true), true) => DetachState::Pending,
            (_, Some(false), true) => DetachState::Attached,
        };
        Ok(DetachNote {
            leaf: Leaf {
                oid: row.try_get(0)?,
                name: name.unwrap_or(TableName { schema: String::new(), name: String::new() }),
                parent: table(row.try_get(4)?, row.try_get(5)?),
                has_number_index: false,
                drop_whole: DropWhole::Now,
                is_half_detached: false,
            },
            name: row.try_get(7)?,
            state,
            uncertain_until: row.try_get(1)?,
        })
    };
    client.query(SQL, &[&outbox.name, &own.slot]).await?.iter().map(read).collect()
}
