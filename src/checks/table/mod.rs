//! An outbox table and its publication, as the catalogs have them now. They are looked up here and
//! judged in [`judge`], for `run` and `migrate` alike.

mod judge;
mod problem;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

pub(crate) use self::problem::TableProblem;
use crate::config::TableName;
use postrider_core::connect::ColumnType;
use postrider_core::pgoutput::RelationId;

/// A table that exists, or something else of its name.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    id: RelationId,
    /// `pg_class.relkind`.
    kind: String,
    /// `pg_class.relpersistence`.
    persistence: String,
    columns: Vec<FoundColumn>,
    /// Its partitions, or children by inheritance, down to the last.
    descendants: Vec<(RelationId, TableName)>,
    /// How the publication sends it, if it does.
    published: Option<Published>,
}

#[derive(Debug, Clone)]
struct FoundColumn {
    name: String,
    column_type: ColumnType,
    generated: bool,
}

#[derive(Debug, Clone)]
struct Published {
    /// None: all of them. Always so before Postgres 15.
    columns: Option<Vec<String>>,
    row_filter: bool,
}

impl Found {
    pub(crate) fn is_published(&self) -> bool {
        self.published.is_some()
    }
}

const TABLE: &str = "
    select c.oid, c.relkind::text, c.relpersistence::text
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relname = $2";

const COLUMNS: &str = "
    with recursive base (number, name, type, modifier, required, generated) as (
        select attnum, attname::text, atttypid, atttypmod, attnotnull, attgenerated <> ''
          from pg_attribute where attrelid = $1 and attnum > 0 and not attisdropped
        union all
        select number, name, typbasetype,
               case when modifier < 0 then typtypmod else modifier end,
               required or typnotnull, generated
          from base join pg_type on pg_type.oid = type where typtype = 'd')
    select name, type, generated, typname::text, modifier, required,
           (select pg_get_expr(adbin, adrelid) from pg_attrdef
             where adrelid = $1 and adnum = number and not generated),
           array(select enumlabel::text from pg_enum where enumtypid = type order by enumsortorder)
      from base join pg_type on pg_type.oid = type
     where typtype <> 'd' order by number";

const DESCENDANTS: &str = "
    with recursive below (id) as (
        select inhrelid from pg_inherits where inhparent = $1
        union select inhrelid from pg_inherits join below on inhparent = id)
    select c.oid, n.nspname::text, c.relname::text
      from below join pg_class c on c.oid = id join pg_namespace n on n.oid = c.relnamespace
     order by 2, 3";

// As JSON, because the view has these columns only since Postgres 15. Before 18 it may list
// generated columns, which are not sent.
const PUBLISHED: &str = "
    select case jsonb_typeof(j -> 'attnames') when 'array' then array(
               select name from jsonb_array_elements_text(j -> 'attnames') as name
                where current_setting('server_version_num')::int >= 180000
                   or not exists (select from pg_attribute
                                   where attrelid = $4 and attname = name and attgenerated <> ''))
           end,
           j ->> 'rowfilter' is not null
      from (select to_jsonb(p) as j from pg_publication_tables p
             where pubname = $1 and schemaname = $2 and tablename = $3) as published";

const PUBLISHED_ANCESTOR: &str = "
    select p.schemaname::text, p.tablename::text
      from pg_partition_ancestors($2::oid::regclass) with ordinality as a (id, level)
      join pg_class c on c.oid = a.id join pg_namespace n on n.oid = c.relnamespace
      join pg_publication_tables p on p.schemaname = n.nspname and p.tablename = c.relname
     where p.pubname = $1 and a.id <> $2 order by a.level desc limit 1";

/// The table with this name in the catalogs.
pub(crate) async fn look_up(
    client: &Client,
    publication: &str,
    table: &TableName,
) -> Result<Option<Found>, Error> {
    let Some(row) = client.query_opt(TABLE, &[&table.schema, &table.name]).await? else {
        return Ok(None);
    };
    let id: RelationId = row.try_get(0)?;
    let mut columns = Vec::new();
    for row in client.query(COLUMNS, &[&id]).await? {
        let column_type = ColumnType {
            type_oid: row.try_get(1)?,
            type_name: row.try_get(3)?,
            type_modifier: row.try_get(4)?,
            not_null: row.try_get(5)?,
            default: row.try_get(6)?,
            enum_labels: row.try_get(7)?,
        };
        columns.push(FoundColumn {
            name: row.try_get(0)?,
            column_type,
            generated: row.try_get(2)?,
        });
    }
    let mut descendants = Vec::new();
    for row in client.query(DESCENDANTS, &[&id]).await? {
        let name = TableName { schema: row.try_get(1)?, name: row.try_get(2)? };
        descendants.push((row.try_get(0)?, name));
    }
    let values: [&(dyn ToSql + Sync); 4] = [&publication, &table.schema, &table.name, &id];
    let published = match client.query_opt(PUBLISHED, &values).await? {
        Some(row) => Some(Published { columns: row.try_get(0)?, row_filter: row.try_get(1)? }),
        None => None,
    };
    Ok(Some(Found {
        id,
        kind: row.try_get(1)?,
        persistence: row.try_get(2)?,
        columns,
        descendants,
        published,
    }))
}

/// The table under whose name the publication sends the rows of this partition.
pub(crate) async fn published_ancestor(
    client: &Client,
    publication: &str,
    partition: &Found,
) -> Result<Option<TableName>, Error> {
    let row = client.query_opt(PUBLISHED_ANCESTOR, &[&publication, &partition.id]).await?;
    match row {
        Some(row) => Ok(Some(TableName { schema: row.try_get(0)?, name: row.try_get(1)? })),
        None => Ok(None),
    }
}
