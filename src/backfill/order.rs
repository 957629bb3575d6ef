//! The order in which the rows of a table are read.
//!
//! The log has rows in commit order; a table does not. One order holds for all rows of a table in
//! one attempt, and a later attempt resumes after its leading value: rows up to that value are
//! published. So the value of a row must never decrease. A row's id, commit time and `created_at`
//! do not change. Of the number of its transaction the row has only 32 bits, and the full number
//! that is derived from them can only increase. `cmin` is different: a DELETE that was rolled back
//! leaves its own number there. It only decides between rows with the same leading value, and such
//! rows are resumed all together or not at all.

use std::fmt;

use tokio_postgres::{Client, Error};

use super::JobTable;
use super::table::{Table, candidates};

/// 32 bits of the number of the transaction that wrote the row.
const NUMBER: &str = "t.xmin::text::bigint";
/// Which command of its transaction wrote the row; wrong if a DELETE of the row was rolled back
/// since.
const COMMAND: &str = "t.cmin::text::bigint";

/// What rows are ordered by first. Rows with the same value follow in the order in which their
/// transaction wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// A number that is never NULL.
    Id {
        /// No two rows have the same number.
        is_unique: bool,
    },
    /// When their transactions were committed, as recorded by the server.
    CommitTime,
    /// The column `created_at`.
    CreatedAt {
        /// Several transactions have rows with the same time.
        is_shared: bool,
    },
    /// The number of their transaction.
    Transaction,
}

impl Order {
    /// Whether each row has a leading value of its own.
    pub(crate) fn is_unique(self) -> bool {
        self == Order::Id { is_unique: true }
    }
}

/// For people: "rows are published …".
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Id { .. } => "by id",
            Order::CommitTime => "by commit time",
            Order::CreatedAt { .. } => "by created_at",
            Order::Transaction => "by transaction number",
        })
    }
}

impl Table {
    /// The order for this attempt: one for all rows that may have to be published, whatever earlier
    /// attempts have done, because a mixture of orders is not an order.
    pub(crate) async fn choose_order(
        &self,
        client: &Client,
        job: &JobTable,
    ) -> Result<Order, Error> {
        if let Some(id) = &self.number {
            return Ok(Order::Id { is_unique: id.is_unique });
        }
        let rows = format!("FROM {} AS t WHERE {}", self.name, candidates(job));
        if self.has_commit_times(client, &rows).await? {
            return Ok(Order::CommitTime);
        }
        let Some(column) = self.created_at.as_ref().filter(|column| column.is_timestamp) else {
            return Ok(Order::Transaction);
        };
        // A time that is missing, or goes back within a transaction, does not show the order in
        // which rows were written.
        let at = format!("t.{}", column.name);
        let (number, command) = (NUMBER, COMMAND);
        let is_order = format!(
            "SELECT NOT EXISTS (SELECT FROM ( \
               SELECT {at} AS at, lag({at}) OVER ( \
                        PARTITION BY {number} ORDER BY {command}, t.tableoid, t.ctid) AS before {rows}) r \
              WHERE r.at IS NULL OR r.at < r.before)"
        );
        if !client.query_one(&is_order, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(Order::Transaction);
        }
        // Each command of a transaction has a number of its own, also in savepoints. So if rows
        // with the same time and the same command number have different transaction numbers,
        // several transactions share that time.
        let is_shared = format!(
            "SELECT EXISTS (SELECT {rows} GROUP BY {at}, {command} \
                            HAVING min({number}) <> max({number}))"
        );
        Ok(Order::CreatedAt { is_shared: client.query_one(&is_shared, &[]).await?.try_get(0)? })
    }

    /// Whether the server knows when each of the rows was committed. It forgets the times of
    /// transactions that were frozen long ago, and never knew those from before the setting was on.
    async fn has_commit_times(&self, client: &Client, rows: &str) -> Result<bool, Error> {
        let is_on = "SELECT current_setting('track_commit_timestamp')::boolean";
        if !client.query_one(is_on, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(false);
        }
        let sql = format!(
            "SELECT NOT EXISTS (SELECT {rows} AND pg_xact_commit_timestamp(t.xmin) IS NULL)"
        );
        client.query_one(&sql, &[]).await?.try_get(0)
    }

    /// A name for the order, by which a later attempt knows whether leading values mean the same.
    pub(crate) fn order_name(&self, order: Order) -> String {
        match order {
            Order::Id { .. } => {
                format!("id {}", self.number.as_ref().map_or("", |id| id.name.as_str()))
            }
            Order::CommitTime => "commit_time".to_owned(),
            Order::CreatedAt { .. } => {
                format!("created_at {}", self.created_at.as_ref().map_or("", |it| it.name.as_str()))
            }
            Order::Transaction => "transaction".to_owned(),
        }
    }

    /// The OIDs of the tables that hold the rows. A partition that was attached has rows that
    /// earlier attempts could not see, however old they are.
    pub(crate) async fn leaves(&self, client: &Client) -> Result<String, Error> {
        const SQL: &str = "SELECT coalesce(string_agg(c.oid::text, ' ' ORDER BY c.oid), '') \
              FROM pg_class c WHERE c.relkind = 'r' \
               AND (c.oid = $1 OR c.oid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass)))";
        client.query_one(SQL, &[&self.id]).await?.try_get(0)
    }

    /// The leading value, a bigint.
    pub(super) fn leading(&self, order: Order) -> String {
        match (order, &self.number, &self.created_at) {
            (Order::Id { .. }, Some(id), _) => format!("t.{}::bigint", id.name),
            (Order::CommitTime, ..) => micros("pg_xact_commit_timestamp(t.xmin)"),
            (Order::CreatedAt { .. }, _, Some(column)) => micros(&format!("t.{}", column.name)),
            _ => full_number(),
        }
    }

    /// The expressions of ORDER BY.
    pub(super) fn order_by(&self, order: Order) -> String {
        let (number, command) = (NUMBER, COMMAND);
        let leading = match (order, &self.number) {
            // Without a cast, so that an index can be used.
            (Order::Id { .. }, Some(id)) => format!("t.{}", id.name),
            _ => self.leading(order),
        };
        match order {
            Order::Id { is_unique: true } => leading,
            Order::CreatedAt { is_shared: true } => {
                format!("{leading}, {number}, {command}, t.tableoid, t.ctid")
            }
            _ => format!("{leading}, {command}, t.tableoid, t.ctid"),
        }
    }
}

/// All 64 bits of the transaction's number: the highest one with these 32 bits that is below the
/// snapshot's xmax.
fn full_number() -> String {
    let now = "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)";
    format!("({now} - (({now} - {NUMBER}) & 4294967295))")
}

/// A time in microseconds. Times out of range, and infinity, become the ends of the range.
fn micros(time: &str) -> String {
    format!(
        "greatest(least(extract(epoch FROM {time}) * 1000000, 9223372036854775806), \
                  -9223372036854775807)::bigint"
    )
}
