//! Finds rows that may be deleted, a batch at a time.
//!
//! If ids are numbers with an index, a scan starts at the lowest: the oldest rows come first,
//! deleted rows cost next to nothing, and it ends where rows are too young. Other tables are read
//! block by block, and the next scan continues where the last one ended.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::batch::Batch;
use super::rules::RowFilter;
use super::sql;
use super::table::{CleanableTable, Leaf};
use postrider_core::cleaning::lateness::RetentionBounds;

/// Blocks read for one batch, unless they have more rows than it can hold.
const BLOCKS_PER_PAGE: i64 = 64;
/// A scan of blocks pauses after this many without a row to delete.
const BLOCKS_IDLE_MAX: i64 = 16_384;

/// Ids mostly rise with time: rows that follow this many rows that are all too young are younger
/// still. Older ones from a long transaction are found once the rows before them are old, too.
const YOUNG_ROWS_MAX: i64 = 10_000;

/// The position of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// At this id.
    Number(i64),
    /// At this block and line.
    Ctid(i64, i64),
}

/// What a page contains.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    /// The number of its rows.
    rows: i64,
    /// Of these, the rows that are old enough, also when counted from their publication.
    old: i64,
    /// Of these, the rows that are certainly in every slot.
    certain: i64,
    /// The last row's id, or block and line.
    last: Option<Cursor>,
    /// The rows that may be deleted.
    batch: Option<Batch>,
}

/// A scan of one leaf.
pub(super) struct RowScanner {
    statement: Statement,
    filter: RowFilter,
    /// The two bounds of transactions whose rows were not published too recently.
    bounds: [String; 2],
    /// The next row to read.
    cursor: Cursor,
    /// Rows before this one will never be certain.
    next_start: Cursor,
    only_uncertain: bool,
    blocks: i64,
    idle_blocks: i64,
    young_rows: i64,
    is_finished: bool,
}

impl RowScanner {
    /// From where the last one left off.
    pub(super) async fn begin(
        client: &Client,
        outbox: &CleanableTable,
        leaf: &Leaf,
        filter: RowFilter,
        bounds: RetentionBounds,
        from: Option<Cursor>,
    ) -> Result<Self, Error> {
        let start =
            if leaf.has_number_index { Cursor::Number(i64::MIN) } else { Cursor::Ctid(0, 0) };
        let statement = client.prepare(&page_statement(outbox, leaf)).await?;
        let size =
            "SELECT pg_relation_size($1::oid::regclass) / current_setting('block_size')::int";
        let blocks = client.query_one(size, &[&leaf.oid]).await?.try_get(0)?;
        // A table that was emptied since then is shorter than the cursor's position.
        let cursor = match from {
            Some(Cursor::Ctid(block, _)) if block >= blocks => start,
            from => from.unwrap_or(start),
        };
        Ok(RowScanner {
            statement,
            filter,
            bounds: [bounds.published_before.to_string(), bounds.prompt_since.to_string()],
            cursor,
            next_start: cursor,
            only_uncertain: true,
            blocks,
            idle_blocks: 0,
            young_rows: 0,
            is_finished: false,
        })
    }

    /// Where the next scan should begin.
    pub(super) fn next_start(&self) -> Cursor {
        self.next_start
    }

    /// Whether there is nothing more to read now.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Reads the next rows.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Option<Batch>, Error> {
        let RowFilter { retention_seconds, since, uncertain_until, batch } = &self.filter;
        let (from, to) = match self.cursor {
            Cursor::Number(id) => (id.to_string(), i64::MAX.to_string()),
            Cursor::Ctid(block, line) => {
                (format!("({block},{line})"), format!("({},0)", block + BLOCKS_PER_PAGE))
            }
        };
        let [published_before, prompt_since] = &self.bounds;
        let values: [&(dyn ToSql + Sync); 8] = [
            &from,
            &to,
            retention_seconds,
            since,
            uncertain_until,
            batch,
            published_before,
            prompt_since,
        ];
        let row = client.query_one(&self.statement, &values).await?;
        let last: Option<String> = row.try_get(3)?;
        let batch = match (row.try_get(4)?, row.try_get(5)?) {
            (Some(ctids), Some(xmins)) => Some(Batch { ctids, xmins }),
            _ => None,
        };
        let page = Page {
            rows: row.try_get(0)?,
            old: row.try_get(1)?,
            certain: row.try_get(2)?,
            last: last.and_then(|last| read_cursor(&last)),
            batch,
        };
        self.advance(&page);
        Ok(page.batch)
    }

    /// Moves the cursor, or ends the scan.
    fn advance(&mut self, page: &Page) {
        let is_full = page.rows >= self.filter.batch;
        match self.cursor {
            Cursor::Number(_) => {
                self.young_rows = if page.old > 0 { 0 } else { self.young_rows + page.rows };
                self.is_finished = !is_full || self.young_rows >= YOUNG_ROWS_MAX;
                if let Some(Cursor::Number(id)) = page.last {
                    self.cursor = Cursor::Number(id.saturating_add(1));
                }
                self.only_uncertain &= page.certain == 0;
                if self.only_uncertain {
                    self.next_start = self.cursor;
                }
            }
            Cursor::Ctid(block, _) => {
                self.cursor = match page.last {
                    Some(Cursor::Ctid(block, line)) if is_full => Cursor::Ctid(block, line + 1),
                    _ => Cursor::Ctid(block + BLOCKS_PER_PAGE, 0),
                };
                let moved = match self.cursor {
                    Cursor::Ctid(now, _) => now - block,
                    Cursor::Number(_) => 0,
                };
                self.idle_blocks = if page.batch.is_some() { 0 } else { self.idle_blocks + moved };
                if matches!(self.cursor, Cursor::Ctid(block, _) if block >= self.blocks) {
                    self.cursor = Cursor::Ctid(0, 0);
                    self.is_finished = true;
                }
                self.is_finished |= self.idle_blocks >= BLOCKS_IDLE_MAX;
                self.next_start = self.cursor;
            }
        }
    }
}

/// `7`, or `(7,1)`.
fn read_cursor(text: &str) -> Option<Cursor> {
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        None => text.parse().ok().map(Cursor::Number),
        Some(place) => {
            let (block, line) = place.split_once(',')?;
            Some(Cursor::Ctid(block.parse().ok()?, line.parse().ok()?))
        }
    }
}

/// One row about the next rows: how many, how many of them old, how many certain, the last one, and
/// those that may be deleted.
fn page_statement(outbox: &CleanableTable, leaf: &Leaf) -> String {
    let id = &outbox.id;
    let (order, from, to) = if leaf.has_number_index {
        (format!("t.{id}"), "$1::text::bigint", "$2::text::bigint")
    } else {
        ("t.ctid".to_owned(), "$1::text::tid", "$2::text::tid")
    };
    format!(
        "WITH page AS MATERIALIZED ( \
             SELECT t.ctid AS place, t.xmin AS writer, t.{id}, {order} AS at, \
                    coalesce({old} AND {retention_passed}, false) AS old, \
                    coalesce({certain}, false) AS certain \
               FROM {leaf} WHERE {order} >= {from} AND {order} < {to} ORDER BY {order} LIMIT $6) \
         SELECT count(*), count(*) FILTER (WHERE old), count(*) FILTER (WHERE certain), \
                (SELECT at::text FROM page ORDER BY at DESC LIMIT 1), \
                array_agg(place) FILTER (WHERE is_done), \
                array_agg(writer) FILTER (WHERE is_done) \
           FROM (SELECT t.*, t.old AND t.certain AND t.{id} IS NOT NULL AND NOT {parked} AS is_done \
                   FROM page AS t) AS judged",
        old = sql::old_condition(outbox, "$3::float8"),
        retention_passed = sql::retention_passed("$7::text", "$8::text"),
        certain = sql::certain_condition(outbox, "$4::text", "$5::text"),
        parked = sql::parked_condition(outbox, "$3::float8"),
        leaf = sql::only(leaf),
    )
}
