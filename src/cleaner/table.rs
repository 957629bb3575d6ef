//! An outbox table as the cleaner needs it: its partitions, its columns, and the role's rights.

use tokio_postgres::{Client, Error};

use crate::config::{OutboxTable, TableName, quote_identifier};
use crate::rights::{Access, Missing, hidden_rows, lacking_on_tables, missing_rights};
use postrider_core::row::Column;

/// Types whose text is the same in the log and in SQL, so that a row is found in the side table.
const ID_TYPES: [&str; 6] = ["bigint", "integer", "smallint", "uuid", "text", "character varying"];
const NUMBER_TYPES: [&str; 3] = ["bigint", "integer", "smallint"];

/// A table whose rows can be cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanableTable {
    /// Its OID.
    pub oid: u32,
    /// Its name, for people and metrics.
    pub name: String,
    /// Itself, and all other tables of its partition tree.
    pub family: Vec<u32>,
    /// Where its rows are: itself, or its partitions.
    pub leaves: Vec<Leaf>,
    /// The name of the id's column, quoted.
    pub id: String,
    /// The name of the column that says how old a row is, quoted.
    pub created_at: String,
}

/// A table that has rows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its OID.
    pub oid: u32,
    /// Its name.
    pub name: TableName,
    /// Its parent, if it is a partition.
    pub parent: Option<TableName>,
    /// Its ids are numbers, and indexed.
    pub has_number_index: bool,
    /// Whether it is dropped as a whole.
    pub drop_whole: DropWhole,
    /// Its detaching was begun and not finished.
    pub is_half_detached: bool,
}

/// Whether a leaf is dropped as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropWhole {
    /// It is cleaned row by row.
    Never,
    /// Once its range is old enough.
    Later,
    /// Its range is older than the retention.
    Now,
}

/// Why a table is not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCleaned {
    /// It is gone; the relay will report that.
    #[error("the table does not exist")]
    Missing,
    /// No id by which a row could be found in the side table.
    #[error(
        "it has no column for the id, or the column's type can't be looked up (bigint, integer, \
         uuid and text can)"
    )]
    NoId,
    /// No column has a row's age.
    #[error("it has no column for created_at of type timestamptz or timestamp")]
    NoCreatedAt,
    /// The schema is older than this program.
    #[error("tables of the cleaner are missing; run `postrider migrate`")]
    NotMigrated,
    /// Hidden rows can't be checked: a partition would be dropped together with them.
    #[error(
        "row-level security hides rows of {0} from the relay's role: run ALTER ROLE … BYPASSRLS for it \
         as a superuser; if the role owns the table, ALTER TABLE … NO FORCE ROW LEVEL SECURITY"
    )]
    HiddenRows(String),
    /// The role lacks rights.
    #[error("the role lacks rights; run as their owner: {0}")]
    Rights(String),
}

impl CleanableTable {
    /// Looks the table up.
    pub async fn find(
        client: &Client,
        table: &OutboxTable,
        retention_seconds: f64,
    ) -> Result<Result<Self, NotCleaned>, Error> {
        let TableName { schema, name } = &table.name;
        const TABLE: &str = "SELECT c.oid FROM pg_class c \
              JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2";
        let Some(row) = client.query_opt(TABLE, &[schema, name]).await? else {
            return Ok(Err(NotCleaned::Missing));
        };
        let oid: u32 = row.try_get(0)?;
        let id = table.columns.of(Column::Id);
        let id_type = column_type(client, oid, id).await?.unwrap_or_default();
        if !ID_TYPES.contains(&id_type.as_str()) {
            return Ok(Err(NotCleaned::NoId));
        }
        let created_at = table.columns.of(Column::CreatedAt);
        let time_type = column_type(client, oid, created_at).await?;
        if !time_type.is_some_and(|it| it.starts_with("timestamp")) {
            return Ok(Err(NotCleaned::NoCreatedAt));
        }
        let mut leaves = leaves(client, oid, id, created_at, retention_seconds).await?;
        if !NUMBER_TYPES.contains(&id_type.as_str()) {
            leaves.iter_mut().for_each(|leaf| leaf.has_number_index = false);
        }
        let oids: Vec<u32> = leaves.iter().map(|leaf| leaf.oid).collect();
        let mut lacking = lacking_on_tables(client, &oids, &["SELECT", "DELETE"]).await?;
        match missing_rights(client, Access::Clean).await? {
            Missing::Table(_) => return Ok(Err(NotCleaned::NotMigrated)),
            Missing::Rights { lacking: own, .. } => lacking.extend(own),
        }
        if !lacking.is_empty() {
            let grants: Vec<String> = lacking.into_iter().map(|it| it.statement).collect();
            return Ok(Err(NotCleaned::Rights(grants.join("; "))));
        }
        if let Some(hidden) = hidden_rows(client, &oids).await? {
            return Ok(Err(NotCleaned::HiddenRows(hidden.tables)));
        }
        Ok(Ok(CleanableTable {
            oid,
            name: table.name.to_string(),
            family: family(client, oid).await?,
            leaves,
            id: quote_identifier(id),
            created_at: quote_identifier(created_at),
        }))
    }
}

/// The column's type; of a domain, the type below it.
async fn column_type(client: &Client, table: u32, column: &str) -> Result<Option<String>, Error> {
    const SQL: &str = "WITH RECURSIVE base AS ( \
          SELECT t.oid, t.typtype, t.typbasetype FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
           WHERE a.attrelid = $1 AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped \
          UNION ALL \
          SELECT t.oid, t.typtype, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype \
           WHERE b.typtype = 'd') \
        SELECT format_type(oid, NULL) FROM base WHERE typtype <> 'd'";
    let row = client.query_opt(SQL, &[&table, &column]).await?;
    row.map(|row| row.try_get(0)).transpose()
}

/// A table that is not partitioned is its own only leaf. Foreign tables are not cleaned.
async fn leaves(
    client: &Client,
    table: u32,
    id: &str,
    created_at: &str,
    retention_seconds: f64,
) -> Result<Vec<Leaf>, Error> {
    const SQL: &str = "SELECT c.oid, n.nspname::text, c.relname::text, \
               pn.nspname::text, pc.relname::text, \
               EXISTS (SELECT FROM pg_index i JOIN pg_attribute a \
                           ON a.attrelid = c.oid AND a.attname = $2 AND a.attnum = i.indkey[0] \
                        JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam \
                        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL \
                          AND m.amname = 'btree'), \
               w.can_drop, \
               CASE WHEN w.can_drop THEN \
                   substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz \
                       < now() - $3::float8 * interval '1 second' END, \
               coalesce(h.inhdetachpending, false) \
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
          LEFT JOIN pg_inherits h ON h.inhrelid = c.oid AND c.relispartition \
          LEFT JOIN pg_class pc ON pc.oid = h.inhparent \
          LEFT JOIN pg_namespace pn ON pn.oid = pc.relnamespace \
          LEFT JOIN pg_partitioned_table p ON p.partrelid = pc.oid \
         CROSS JOIN LATERAL ( \
             SELECT pg_has_role(c.relowner, 'USAGE') AND pg_has_role(pc.relowner, 'USAGE') \
                AND p.partstrat = 'r' AND p.partnatts = 1 AND p.partdefid = 0 \
                AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = pc.oid \
                               AND a.attname = $4 AND a.attnum = p.partattrs[0])) \
             AS w(can_drop) \
         WHERE c.relkind = 'r' AND c.oid IN ( \
             WITH RECURSIVE below (id) AS ( \
                 SELECT $1::oid \
                 UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = id \
                         JOIN pg_class k ON k.oid = inhrelid AND k.relispartition) \
             SELECT id FROM below) \
         ORDER BY c.oid";
    let read = |row: &tokio_postgres::Row| {
        let parent: (Option<String>, Option<String>) = (row.try_get(3)?, row.try_get(4)?);
        let parent = match parent {
            (Some(schema), Some(name)) => Some(TableName { schema, name }),
            _ => None,
        };
        Ok(Leaf {
            oid: row.try_get(0)?,
            name: TableName { schema: row.try_get(1)?, name: row.try_get(2)? },
            parent,
            has_number_index: row.try_get(5)?,
            drop_whole: match (row.try_get(6)?, row.try_get(7)?) {
                (Some(true), Some(true)) => DropWhole::Now,
                (Some(true), Some(false)) => DropWhole::Later,
                _ => DropWhole::Never,
            },
            is_half_detached: row.try_get(8)?,
        })
    };
    client
        .query(SQL, &[&table, &id, &retention_seconds, &created_at])
        .await?
        .iter()
        .map(read)
        .collect()
}

/// Partitions can be covered under their own names or their parent's.
async fn family(client: &Client, table: u32) -> Result<Vec<u32>, Error> {
    const SQL: &str = "SELECT relid::oid FROM pg_partition_tree( \
             coalesce(pg_partition_root($1::oid::regclass), $1::oid::regclass)) \
        UNION SELECT $1::oid ORDER BY 1";
    client.query(SQL, &[&table]).await?.iter().map(|row| row.try_get(0)).collect()
}
