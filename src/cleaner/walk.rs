//! Finds rows that may be deleted, a batch at a time.
//!
//! If ids are numbers with an index, the walk starts at the lowest: the oldest rows come first,
//! deleted rows cost next to nothing, and it ends where rows are too young. Other tables are read
//! block by block, and the next walk continues where the last one ended.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::outbox::{Leaf, Outbox};
use super::sql;
use super::version::{Place, Writer};
use postrider_core::cleaning::lateness::Served;

/// Blocks read for one batch, unless they have more rows than it can hold.
const BLOCKS_PER_PAGE: i64 = 64;
/// A walk through blocks pauses after this many without a row to delete.
const BLOCKS_IDLE_MAX: i64 = 16_384;

/// Ids mostly rise with time: rows that follow this many rows that are all too young are younger
/// still. Older ones from a long transaction are found once the rows before them are old, too.
const YOUNG_ROWS_MAX: i64 = 10_000;

/// Conditions on a row. In addition, it must not be parked.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Older than this by the database's clock.
    pub retention_seconds: f64,
    /// Written by this transaction or a later one.
    pub since: String,
    /// Created after this.
    pub floor: String,
    /// Rows per batch.
    pub batch: i64,
}

/// The walsender decodes a deletion as a whole, and sends no events meanwhile.
const ROWS_PER_TRANSACTION: usize = 200;

/// Rows that may be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    places: Vec<Place>,
    writers: Vec<Writer>,
}

/// Rows of a batch that are deleted in one transaction.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub(super) places: &'a [Place],
    pub(super) writers: &'a [Writer],
}

impl Batch {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    /// In the order in which they were found.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let places = self.places.chunks(ROWS_PER_TRANSACTION);
        let writers = self.writers.chunks(ROWS_PER_TRANSACTION);
        places.zip(writers).map(|(places, writers)| Part { places, writers })
    }
}

/// The position of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// At this id.
    Number(i64),
    /// At this block and line.
    Place(i64, i64),
}

/// What a page contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// The number of its rows.
    pub rows: i64,
    /// Of these, the rows that are old enough, also when counted from their publication.
    pub old: i64,
    /// Of these, the rows that are certainly in every slot.
    pub certain: i64,
    /// The last row's id, or block and line.
    pub last: Option<Cursor>,
    /// The rows that may be deleted.
    pub batch: Option<Batch>,
}

/// A walk through one leaf.
pub(crate) struct Walk {
    statement: Statement,
    wanted: Wanted,
    /// The two bounds of transactions whose rows were not published too recently.
    served: [String; 2],
    /// The next row to read.
    pub cursor: Cursor,
    /// Rows before this one will never be certain.
    pub skip: Cursor,
    only_uncertain: bool,
    blocks: i64,
    idle_blocks: i64,
    young_rows: i64,
    is_over: bool,
}

impl Walk {
    /// From where the last one left off.
    pub(super) async fn begin(
        client: &Client,
        outbox: &Outbox,
        leaf: &Leaf,
        wanted: Wanted,
        served: Served,
        from: Option<Cursor>,
    ) -> Result<Self, Error> {
        let start = match leaf.has_number_index {
            true => Cursor::Number(i64::MIN),
            false => Cursor::Place(0, 0),
        };
        let statement = client.prepare(&page_statement(outbox, leaf)).await?;
        let size =
            "SELECT pg_relation_size($1::oid::regclass) / current_setting('block_size')::int";
        let blocks = client.query_one(size, &[&leaf.oid]).await?.try_get(0)?;
        // A table that was emptied since then is shorter than the cursor's position.
        let cursor = match from {
            Some(Cursor::Place(block, _)) if block >= blocks => start,
            from => from.unwrap_or(start),
        };
        Ok(Walk {
            statement,
            wanted,
            served: [served.published_before.to_string(), served.prompt_since.to_string()],
            cursor,
            skip: cursor,
            only_uncertain: true,
            blocks,
            idle_blocks: 0,
            young_rows: 0,
            is_over: false,
        })
    }

    /// Whether there is nothing more to read now.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reads the next rows.
    pub(crate) async fn next(&mut self, client: &Client) -> Result<Option<Batch>, Error> {
        let Wanted { retention_seconds, since, floor, batch } = &self.wanted;
        let (from, to) = match self.cursor {
            Cursor::Number(id) => (id.to_string(), i64::MAX.to_string()),
            Cursor::Place(block, line) => {
                (format!("({block},{line})"), format!("({},0)", block + BLOCKS_PER_PAGE))
            }
        };
        let [published_before, prompt_since] = &self.served;
        let values: [&(dyn ToSql + Sync); 8] =
            [&from, &to, retention_seconds, since, floor, batch, published_before, prompt_since];
        let row = client.query_one(&self.statement, &values).await?;
        let last: Option<String> = row.try_get(3)?;
        let batch = match (row.try_get(4)?, row.try_get(5)?) {
            (Some(places), Some(writers)) => Some(Batch { places, writers }),
            _ => None,
        };
        let page = Page {
            rows: row.try_get(0)?,
            old: row.try_get(1)?,
            certain: row.try_get(2)?,
            last: last.and_then(|last| read_cursor(&last)),
            batch,
        };
        self.learn(&page);
        Ok(page.batch)
    }

    /// Advances the cursor, or ends the walk.
    fn learn(&mut self, page: &Page) {
        let is_full = page.rows >= self.wanted.batch;
        match self.cursor {
            Cursor::Number(_) => {
                self.young_rows = if page.old > 0 { 0 } else { self.young_rows + page.rows };
                self.is_over = !is_full || self.young_rows >= YOUNG_ROWS_MAX;
                if let Some(Cursor::Number(id)) = page.last {
                    self.cursor = Cursor::Number(id.saturating_add(1));
                }
                self.only_uncertain &= page.certain == 0;
                if self.only_uncertain {
                    self.skip = self.cursor;
                }
            }
            Cursor::Place(block, _) => {
                self.cursor = match page.last {
                    Some(Cursor::Place(block, line)) if is_full => Cursor::Place(block, line + 1),
                    _ => Cursor::Place(block + BLOCKS_PER_PAGE, 0),
                };
                let moved = match self.cursor {
                    Cursor::Place(now, _) => now - block,
                    Cursor::Number(_) => 0,
                };
                self.idle_blocks = if page.batch.is_some() { 0 } else { self.idle_blocks + moved };
                if matches!(self.cursor, Cursor::Place(block, _) if block >= self.blocks) {
                    self.cursor = Cursor::Place(0, 0);
                    self.is_over = true;
                }
                self.is_over |= self.idle_blocks >= BLOCKS_IDLE_MAX;
                self.skip = self.cursor;
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
            Some(Cursor::Place(block.parse().ok()?, line.parse().ok()?))
        }
    }
}

/// One row about the next rows: how many, how many of them old, how many certain, the last one, and
/// those that may be deleted.
fn page_statement(outbox: &Outbox, leaf: &Leaf) -> String {
    let id = &outbox.id;
    let (order, from, to) = match leaf.has_number_index {
        true => (format!("t.{id}"), "$1::text::bigint", "$2::text::bigint"),
        false => ("t.ctid".to_owned(), "$1::text::tid", "$2::text::tid"),
    };
    format!(
        "WITH page AS MATERIALIZED ( \
             SELECT t.ctid AS place, t.xmin AS writer, t.{id}, {order} AS at, \
                    coalesce({old} AND {served}, false) AS old, coalesce({certain}, false) AS certain \
               FROM {leaf} WHERE {order} >= {from} AND {order} < {to} ORDER BY {order} LIMIT $6) \
         SELECT count(*), count(*) FILTER (WHERE old), count(*) FILTER (WHERE certain), \
                (SELECT at::text FROM page ORDER BY at DESC LIMIT 1), \
                array_agg(place) FILTER (WHERE is_done), \
                array_agg(writer) FILTER (WHERE is_done) \
           FROM (SELECT t.*, t.old AND t.certain AND t.{id} IS NOT NULL AND NOT {parked} AS is_done \
                   FROM page AS t) AS judged",
        old = sql::is_old(outbox, "$3::float8"),
        served = sql::is_served("$7::text", "$8::text"),
        certain = sql::is_certain(outbox, "$4::text", "$5::text"),
        parked = sql::is_parked(outbox, "$3::float8"),
        leaf = sql::only(leaf),
    )
}
