//! The query for the rows of a table, which returns them as the log would have them. When in doubt,
//! a row is published.

use crate::schema::StatusColumn;
use postrider_core::parking::Status;
use std::sync::Arc;

use tokio_postgres::{Client, Error};

use super::JobTable;
use super::order::Order;
use super::parked::{DISCARDED, LIVE, Parked};
use crate::config::{OutboxTable, quote_identifier};
use postrider_core::connect::ColumnType;
use postrider_core::pgoutput::{Relation, RelationColumn};
use postrider_core::row::{
    Column, Layout, LayoutError, PresentColumn, PresentTable, has_binary_form,
};
use postrider_core::transaction_age::may_be_since;

/// `smallint`, `integer` and `bigint`.
const NUMBERS: [u32; 3] = [20, 21, 23];

/// A table that is to be read.
pub(crate) struct Table {
    /// Its OID, which the log uses too.
    pub id: u32,
    /// How its rows are read.
    pub layout: Arc<Layout>,
    /// What follows FROM.
    pub(super) name: String,
    /// Quoted names, and whether the value is sent as text.
    pub(super) columns: Vec<(String, bool)>,
    /// The column of ids that rows can be ordered by.
    pub(super) number: Option<NumberColumn>,
    pub(super) created_at: Option<TimeColumn>,
    /// Which rows have their events in the side table.
    pub(super) parked: Option<Parked>,
}

/// A column of ids that are numbers, and never NULL.
pub(super) struct NumberColumn {
    /// Quoted.
    pub(super) name: String,
    pub(super) is_unique: bool,
}

/// The column with the times at which rows were created.
pub(super) struct TimeColumn {
    /// Quoted.
    pub(super) name: String,
    /// It is not just a date.
    pub(super) is_timestamp: bool,
    /// Its values are moments, whatever the time zone.
    pub(super) has_zone: bool,
}

impl Table {
    /// The configured table with the index `number`, as it is now.
    pub(crate) async fn look_up(
        client: &Client,
        number: usize,
        table: &OutboxTable,
        present: &PresentTable,
    ) -> Result<Result<Self, LayoutError>, Error> {
        let columns = present.columns.iter().map(|column| RelationColumn {
            flags: 0,
            name: &column.name,
            type_oid: column.column_type.type_oid,
            type_modifier: -1,
        });
        let relation = Relation {
            id: present.id,
            schema: &table.name.schema,
            name: &table.name.name,
            replica_identity: b'd',
            columns: columns.collect(),
        };
        let layout = Layout::new(number, &relation, &table.columns);
        let layout = match layout.and_then(|layout| table.typed(layout, present, None)) {
            Ok(layout) => layout,
            Err(error) => return Ok(Err(error)),
        };
        let as_text = |column: &PresentColumn| {
            (quote_identifier(&column.name), !has_binary_form(column.column_type.type_oid))
        };
        const LOOK: &str = "SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = $1";
        // Children by inheritance are tables of their own; partitions are not.
        let is_partitioned = client.query_one(LOOK, &[&present.id]).await?.try_get(0)?;
        let only = if is_partitioned { "" } else { "ONLY " };
        Ok(Ok(Table {
            id: present.id,
            layout: Arc::new(layout),
            name: format!("{only}{}", table.name.quoted()),
            columns: present.columns.iter().map(as_text).collect(),
            number: number_column(client, table, present).await?,
            created_at: time_column(client, present.id, table.columns.of(Column::CreatedAt))
                .await?,
            parked: Parked::look_up(client, table, present).await?,
        }))
    }

    /// The statement that copies the rows that are to be published, in this order. Its columns are
    /// those of the log, then the time when the row was created, if the table has that, and the
    /// leading value of the order.
    pub(super) fn copy(&self, reading: &Reading<'_>) -> String {
        let column = |(name, as_text): &(String, bool)| match as_text {
            // The output of the type itself, as in the log: casts of some types differ from it.
            true => format!(
                "CASE WHEN t.{name} IS DISTINCT FROM NULL THEN pg_catalog.format('%s', t.{name}) END"
            ),
            false => format!("t.{name}"),
        };
        let mut columns: Vec<String> = self.columns.iter().map(column).collect();
        columns.push(match &self.created_at {
            Some(column) => column.moment(),
            None => "NULL::timestamptz".to_owned(),
        });
        columns.push(self.leading(reading.order));
        format!(
            "COPY (SELECT {} FROM {} AS t WHERE {} ORDER BY {}) TO STDOUT (FORMAT binary)",
            columns.join(", "),
            self.name,
            self.wanted(reading),
            self.order_by(reading.order),
        )
    }

    /// How many rows are to be published.
    pub(crate) async fn count(&self, client: &Client, reading: &Reading<'_>) -> Result<i64, Error> {
        let condition = self.wanted(reading);
        let sql = format!("SELECT count(*) FROM {} AS t WHERE {condition}", self.name);
        client.query_one(&sql, &[]).await?.try_get(0)
    }

    /// How many rows are left out because their events are in the side table, by status.
    pub(crate) async fn count_parked(
        &self,
        client: &Client,
        reading: &Reading<'_>,
    ) -> Result<Vec<(Status, i64)>, Error> {
        let statuses = format!("{LIVE}, {DISCARDED}");
        let Some(entry_condition) = self.entry_condition(reading, &statuses) else {
            return Ok(Vec::new());
        };
        let sql = format!(
            "SELECT u.status, count(DISTINCT u.row_id) FROM {} AS t \
               JOIN postrider.undelivered u ON {entry_condition} WHERE {} GROUP BY 1 ORDER BY 1",
            self.name,
            self.wanted_if_parked(reading),
        );
        let rows = client.query(&sql, &[]).await?;
        rows.iter().map(|row| Ok((row.try_get::<_, StatusColumn>(0)?.0, row.try_get(1)?))).collect()
    }

    /// The slots whose parked events of this table are left out: the given one, and slots that no
    /// longer exist.
    pub(crate) async fn parked_by(
        &self,
        client: &Client,
        slot: &str,
    ) -> Result<Vec<String>, Error> {
        match &self.parked {
            Some(parked) => parked.slots(client, slot).await,
            None => Ok(Vec::new()),
        }
    }

    fn wanted(&self, reading: &Reading<'_>) -> String {
        let mut wanted = self.wanted_if_parked(reading);
        // A condition for each, because each has an index of its own.
        for entry_condition in
            [LIVE, DISCARDED].iter().filter_map(|it| self.entry_condition(reading, it))
        {
            // Not NOT EXISTS: as a join it could prevent the use of the ids' index for the order.
            wanted.push_str(&format!(
                " AND (EXISTS (SELECT FROM postrider.undelivered u WHERE {entry_condition})) IS NOT TRUE"
            ));
        }
        wanted
    }

    fn wanted_if_parked(&self, reading: &Reading<'_>) -> String {
        wanted(reading.job, &self.leading(reading.order), reading.seen_before)
    }

    /// A condition: the entry `u` of the side table belongs to the row. None if no row can have an
    /// entry.
    fn entry_condition(&self, reading: &Reading<'_>, statuses: &str) -> Option<String> {
        let parked = self.parked.as_ref().filter(|_| !reading.parked_by.is_empty())?;
        Some(parked.entry_condition(&reading.parked_by, statuses))
    }
}

/// Which rows of a table an attempt reads.
pub(crate) struct Reading<'a> {
    /// The table's part of the job.
    pub job: &'a JobTable,
    /// Their order.
    pub order: Order,
    /// Transactions before this one had ended when the first attempt began to read.
    pub seen_before: Option<&'a str>,
    /// The slots whose parked events are left out: see [`Table::parked_by`].
    pub parked_by: Vec<String>,
}

/// The id column, if rows can be ordered by it: a number that is never NULL, and is unique or
/// assigned by a sequence.
async fn number_column(
    client: &Client,
    table: &OutboxTable,
    present: &PresentTable,
) -> Result<Option<NumberColumn>, Error> {
    const SQL: &str = "SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid \
                      AND i.indisunique AND i.indisvalid AND i.indpred IS NULL \
                      AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum), \
               a.attidentity <> '' OR EXISTS (SELECT FROM pg_attrdef d \
                    WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum \
                      AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%') \
          FROM pg_attribute a \
         WHERE a.attrelid = $1 AND a.attname = $2 AND NOT a.attisdropped AND a.attnotnull";
    let name = table.columns.of(Column::Id);
    let is_number = |column: &ColumnType| NUMBERS.contains(&column.type_oid);
    if !present.column(name).is_some_and(is_number) {
        return Ok(None);
    }
    let Some(row) = client.query_opt(SQL, &[&present.id, &name]).await? else { return Ok(None) };
    let (is_unique, is_given_out): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    let column = NumberColumn { name: quote_identifier(name), is_unique };
    Ok((is_unique || is_given_out).then_some(column))
}

async fn time_column(client: &Client, table: u32, name: &str) -> Result<Option<TimeColumn>, Error> {
    const SQL: &str = "SELECT a.atttypid <> 'date'::regtype, \
               a.atttypid = 'timestamptz'::regtype FROM pg_attribute a \
         WHERE a.attrelid = $1 AND a.attname = $2 AND NOT a.attisdropped AND a.atttypid IN \
               ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)";
    let row = client.query_opt(SQL, &[&table, &name]).await?;
    row.map(|row| {
        let name = quote_identifier(name);
        Ok(TimeColumn { name, is_timestamp: row.try_get(0)?, has_zone: row.try_get(1)? })
    })
    .transpose()
}

impl TimeColumn {
    /// The column as a moment. One without a zone has been written in that of the application,
    /// which is most likely the database's; the session that reads has another.
    fn moment(&self) -> String {
        let name = &self.name;
        if self.has_zone {
            return format!("t.{name}");
        }
        const ZONE: &str = "(SELECT reset_val FROM pg_settings WHERE name = 'TimeZone')";
        format!("(t.{name}::timestamp AT TIME ZONE {ZONE})")
    }
}

fn xid8(number: &str) -> String {
    format!("'{}'::xid8", number.replace('\'', ""))
}

/// Rows that have to be published in some attempt.
pub(super) fn candidates(table: &JobTable) -> String {
    table.since.as_ref().map_or("true".to_owned(), |since| may_be_since(&xid8(since)))
}

/// Which rows of the table are to be published in this attempt. `leading` is what they are ordered
/// by first; `seen_before`: transactions before this one had ended when the first attempt began.
fn wanted(table: &JobTable, leading: &str, seen_before: Option<&str>) -> String {
    let mut terms = vec![candidates(table)];
    if let Some(seen) = seen_before {
        let is_new = may_be_since(&xid8(seen));
        match (table.is_done, table.reached) {
            (true, _) => terms.push(is_new),
            (false, Some(reached)) => {
                terms.push(format!("(({leading} <= {reached}) IS NOT TRUE OR {is_new})"));
            }
            (false, None) => {}
        }
    }
    terms.join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_try_leaves_out_what_the_first_has_published() {
        let check = |table: JobTable, seen: Option<&str>, parts: &[&str]| {
            let sql = wanted(&table, "t.\"id\"", seen);
            for part in parts {
                assert!(sql.contains(part), "{sql}");
            }
            assert_eq!(sql == "true", parts.is_empty(), "{sql}");
        };
        check(JobTable::default(), None, &[]);
        check(JobTable::default(), Some("7"), &[]);
        let begun = JobTable { reached: Some(5), ..JobTable::default() };
        check(begun, Some("7"), &["(t.\"id\" <= 5) IS NOT TRUE OR", "'7'::xid8"]);
        let recover = JobTable { since: Some("3".to_owned()), ..JobTable::default() };
        check(recover, None, &["'3'::xid8"]);
        let done = JobTable { is_done: true, reached: Some(5), ..JobTable::default() };
        assert!(!wanted(&done, "t.id", Some("7")).contains("<= 5"));
    }
}
