//! Deletes picked rows, if nothing has changed since.

use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, Statement};

use super::coverage;
use super::outbox::{Leaf, Outbox};
use super::sql;
use super::walk::{Part, Wanted};
use postrider_core::cleaning::rule::{Asker, Standing};
use postrider_core::lsn::Lsn;

/// Deletes batches of one leaf.
pub(crate) struct Removal {
    statement: Statement,
    family: Vec<u32>,
}

impl Removal {
    /// The statement is prepared once.
    ///
    /// A batch names rows by place and transaction: the very versions that were picked. Everything
    /// that made them certain is checked again in this statement's snapshot, which is taken after
    /// all slots had passed: an event that was parked meanwhile is seen.
    pub(crate) async fn prepare(
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
    ) -> Result<Self, Error> {
        let sql = format!(
            "DELETE FROM {leaf} USING unnest($5::tid[], $6::xid[]) AS c(place, writer) \
              WHERE t.ctid = c.place AND t.xmin = c.writer \
                AND ({passed}) = $4::text AND {old} AND {certain} AND NOT {parked}",
            leaf = sql::only(leaf),
            passed = coverage::marks_of_passed!(),
            old = sql::is_old(outbox, "$7::float8"),
            certain = sql::is_certain(outbox, "$8::text", "$9::text"),
            parked = sql::is_parked(outbox, "$7::float8"),
        );
        Ok(Removal { statement: client.prepare(&sql).await?, family: outbox.family.clone() })
    }

    /// Deletes a part of a batch in a transaction; returns the number of deleted rows.
    pub(crate) async fn delete(
        &self,
        client: &Client,
        part: Part<'_>,
        wanted: &Wanted,
        asker: Asker<'_>,
        picked: &Standing,
        limit: Lsn,
    ) -> Result<u64, Error> {
        let limit = PgLsn::from(limit.bytes());
        let values: [&(dyn ToSql + Sync); 9] = [
            &self.family,
            &asker.slot,
            &limit,
            &picked.marks,
            &part.places,
            &part.writers,
            &wanted.retention_seconds,
            &wanted.since,
            &wanted.floor,
        ];
        client.execute(&self.statement, &values).await
    }
}
