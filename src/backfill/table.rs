//! How a table's rows are asked for, so that they come as the log would have them.

use std::sync::Arc;

use tokio_postgres::{Client, Error};

use super::{JobTable, sql};
use crate::config::{OutboxTable, quote_identifier};
use crate::outbox::{Column, Layout, LayoutError, PresentTable, has_binary_form};
use crate::pgoutput::{Relation, RelationColumn};

/// `smallint`, `integer` and `bigint`.
const NUMBERS: [u32; 3] = [20, 21, 23];

/// A table that is to be read.
pub struct Table {
    /// Its number in the log.
    pub id: u32,
    /// How its rows are read.
    pub layout: Arc<Layout>,
    /// As FROM has it.
    name: String,
    /// Names as SQL has them, and whether the value comes as text.
    pub(super) columns: Vec<(String, bool)>,
    /// The id's column, and whether it is a number.
    key: Option<(String, bool)>,
    has_created_at: bool,
}

impl Table {
    /// The configured table number `number`, as it is now.
    pub async fn look_up(
        client: &Client,
        number: usize,
        table: &OutboxTable,
        present: &PresentTable,
    ) -> Result<Result<Self, LayoutError>, Error> {
        let columns = present.columns.iter().map(|(name, type_oid)| RelationColumn {
            flags: 0,
            name,
            type_oid: *type_oid,
            type_modifier: -1,
        });
        let relation = Relation {
            id: present.id,
            schema: &table.name.schema,
            name: &table.name.name,
            replica_identity: b'd',
            columns: columns.collect(),
        };
        let layout = match Layout::new(number, &relation, &table.columns) {
            Ok(layout) => layout,
            Err(error) => return Ok(Err(error)),
        };
        let of_id = table.columns.of(Column::Id);
        let key = present.columns.iter().find(|(name, _)| name == of_id);
        let as_text = |(name, type_oid): &(String, u32)| {
            (quote_identifier(name), !has_binary_form(*type_oid))
        };
        const LOOK: &str = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid \
                    AND attname = 'created_at' AND NOT attisdropped AND atttypid IN \
                    ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)), \
                c.relkind = 'p' FROM pg_class c WHERE c.oid = $1";
        let row = client.query_one(LOOK, &[&present.id]).await?;
        // Children by inheritance are tables of their own, partitions are not.
        let only = if row.try_get(1)? { "" } else { "ONLY " };
        Ok(Ok(Table {
            id: present.id,
            layout: Arc::new(layout),
            name: format!("{only}{}", table.name.quoted()),
            columns: present.columns.iter().map(as_text).collect(),
            key: key.map(|(name, oid)| (quote_identifier(name), NUMBERS.contains(oid))),
            has_created_at: row.try_get(0)?,
        }))
    }

    /// Its rows that are to be published, in the order of their ids: the columns of the log, then when
    /// the row was created and its id, where these are a time and a number.
    pub(super) fn copy(&self, job: &JobTable, seen_before: Option<&str>) -> String {
        let column = |(name, as_text): &(String, bool)| match as_text {
            true => format!("t.{name}::text"),
            false => format!("t.{name}"),
        };
        let mut columns: Vec<String> = self.columns.iter().map(column).collect();
        let created_at = match self.has_created_at {
            true => "t.created_at::timestamptz",
            false => "NULL::timestamptz",
        };
        columns.push(created_at.to_owned());
        columns.push(match &self.key {
            Some((name, true)) => format!("t.{name}::bigint"),
            _ => "NULL::bigint".to_owned(),
        });
        let order = match &self.key {
            Some((name, true)) => format!(" ORDER BY t.{name}"),
            Some((name, false)) if self.has_created_at => {
                format!(" ORDER BY t.created_at, t.{name}")
            }
            Some((name, false)) => format!(" ORDER BY t.{name}"),
            None if self.has_created_at => " ORDER BY t.created_at".to_owned(),
            None => String::new(),
        };
        format!(
            "COPY (SELECT {} FROM {} AS t WHERE {}{order}) TO STDOUT (FORMAT binary)",
            columns.join(", "),
            self.name,
            self.wanted(job, seen_before),
        )
    }

    /// How many rows that are.
    pub async fn count(
        &self,
        client: &Client,
        job: &JobTable,
        seen_before: Option<&str>,
    ) -> Result<i64, Error> {
        let condition = self.wanted(job, seen_before);
        let sql = format!("SELECT count(*) FROM {} AS t WHERE {condition}", self.name);
        client.query_one(&sql, &[]).await?.try_get(0)
    }

    fn wanted(&self, job: &JobTable, seen_before: Option<&str>) -> String {
        let number = self.key.as_ref().filter(|(_, is_number)| *is_number);
        sql::wanted(job, number.map(|(name, _)| name.as_str()), seen_before)
    }
}
