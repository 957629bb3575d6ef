//! The table `postrider.progress`: all SQL on it that the relay runs.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, Statement};

use super::coverage::other_way;
use super::{Identity, Inside, Progress, Reading};
use crate::postgres::{Purpose, log_end};
use postrider_core::ack::{Done, DoneInside};
use postrider_core::lsn::Lsn;

/// What is stored of a slot, if anything.
pub(crate) async fn load(client: &Client, slot: &str) -> Result<Option<Progress>, Error> {
    const SQL: &str = "SELECT generation::text, system_identifier, position, \
                done_before IS NOT NULL, inside_commit_lsn, inside_change_lsn, inside_events, \
                inside_depends_on::text AS inside_depends_on \
         FROM postrider.progress WHERE slot = $1";
    let read = |row: &tokio_postgres::Row| {
        let position: PgLsn = row.try_get(2)?;
        Ok(Progress {
            generation: row.try_get(0)?,
            system_identifier: row.try_get(1)?,
            position: Lsn::new(position.into()),
            has_moved: row.try_get(3)?,
            inside: read_inside(row)?,
        })
    };
    client.query_opt(SQL, &[&slot]).await?.as_ref().map(read).transpose()
}

fn read_inside(row: &tokio_postgres::Row) -> Result<Option<Inside>, Error> {
    let lsn = |column| Ok(row.try_get::<_, Option<PgLsn>>(column)?.map(|it| Lsn::new(it.into())));
    let (commit_lsn, change_lsn) = (lsn("inside_commit_lsn")?, lsn("inside_change_lsn")?);
    let events: Option<i64> = row.try_get("inside_events")?;
    let depends_on: Option<String> = row.try_get("inside_depends_on")?;
    let read = || {
        let events = u64::try_from(events?).ok()?;
        let done = DoneInside::stored(commit_lsn?, change_lsn?, events);
        Some(Inside { done, depends_on: depends_on? })
    };
    Ok(read())
}

/// Sets up a session that writes values which this server must not lose.
pub(crate) async fn begin_session(client: &Client) -> Result<(), Error> {
    Purpose::Progress.begin(client).await
}

/// Stores the position of a slot that has no stored progress; false if it had some. Nobody else
/// must be able to move the slot meanwhile.
pub(crate) async fn adopt(client: &Client, slot: &str, position: Lsn) -> Result<bool, Error> {
    const SQL: &str = "INSERT INTO postrider.progress (slot, position) VALUES ($1, $2) \
         ON CONFLICT (slot) DO NOTHING";
    Ok(client.execute(SQL, &[&slot, &PgLsn::from(position.bytes())]).await? == 1)
}

/// Whether the slot may still have to read log from before the publication was created.
///
/// A slot retains catalog rows from the oldest transaction on that had not ended at its position
/// (`catalog_xmin`). A publication of an earlier transaction existed there; one of a later
/// transaction perhaps not: the slot can be further than its `catalog_xmin` shows, which a new slot
/// can also take over from other slots.
pub(crate) async fn may_predate(
    client: &Client,
    slot: &str,
    publication: &str,
) -> Result<bool, Error> {
    const SQL: &str = "SELECT coalesce((SELECT age(p.xmin) <= age(s.catalog_xmin) \
          FROM pg_replication_slots s, pg_publication p \
         WHERE s.slot_name = $1 AND p.pubname = $2), false)";
    client.query_one(SQL, &[&slot, &publication]).await?.try_get(0)
}

/// Whether the server leaves out rows from before the publication without an error.
pub(crate) async fn skips_in_silence(client: &Client) -> Result<bool, Error> {
    const SQL: &str = "SELECT current_setting('server_version_num')::int >= 180000";
    client.query_one(SQL, &[]).await?.try_get(0)
}

/// The same as [`may_predate`], as certain as can be: the server reads on from the position of a
/// slot that nobody uses. This does not work on a server that would leave out rows silently.
pub(crate) async fn predates_publication(
    client: &Client,
    slot: &str,
    publication: &str,
) -> Result<bool, Error> {
    // All of it: unreadable log may follow readable log. Only if there is any doubt.
    const PEEK: &str = "SELECT count(*) FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, \
        'proto_version', '1', 'publication_names', $2)";
    if !may_predate(client, slot, publication).await? {
        return Ok(false);
    }
    if skips_in_silence(client).await? {
        return Ok(true);
    }
    let names = crate::config::quote_identifier(publication);
    match client.query_one(PEEK, &[&slot, &names]).await {
        Ok(_) => Ok(false),
        Err(error) => match error.code() {
            Some(code) if *code == SqlState::UNDEFINED_OBJECT => Ok(true),
            // Somebody reads it.
            Some(code) if *code == SqlState::OBJECT_IN_USE => Ok(false),
            _ => Err(error),
        },
    }
}

/// Records which server it is.
pub(crate) async fn identify(client: &Client, slot: &str, here: &Identity) -> Result<(), Error> {
    const SQL: &str = "UPDATE postrider.progress SET system_identifier = $2, timeline = $3 \
         WHERE slot = $1 AND (system_identifier, timeline) IS DISTINCT FROM ($2, $3)";
    client.execute(SQL, &[&slot, &here.system_identifier, &here.timeline]).await?;
    Ok(())
}

/// Whether it is promised that the slot's relay publishes events without a table.
pub(crate) async fn has_promised_messages(client: &Client, slot: &str) -> Result<bool, Error> {
    const SQL: &str = "SELECT EXISTS (SELECT FROM postrider.message_slot WHERE slot = $1)";
    client.query_one(SQL, &[&slot]).await?.try_get(0)
}

/// Promises it. Progress of the slot must be stored: the slot has what is written from now on.
pub(crate) async fn promise_messages(client: &Client, slot: &str) -> Result<(), Error> {
    if !has_promised_messages(client, slot).await? {
        client.execute(&promise_statement("$1"), &[&slot]).await?;
    }
    Ok(())
}

/// The statement for it. The argument is an expression in SQL.
pub(crate) fn promise_statement(slot: &str) -> String {
    format!(
        "INSERT INTO postrider.message_slot (slot) \
         SELECT p.slot FROM postrider.progress p WHERE p.slot = {slot} ON CONFLICT DO NOTHING"
    )
}

/// How far the stream must have been read before the stored position may be confirmed to the slot;
/// None: it may be confirmed at once.
///
/// Standbys copy the position of a failover slot, and get the stored position with the log. The
/// server sends through such a slot only what its standbys have (`synchronized_standby_slots`):
/// when it sends what comes after this, they have the stored position too, and the slot of a
/// promoted one is never ahead of it.
pub(crate) async fn safe_once_read_to(client: &Client, slot: &str) -> Result<Option<Lsn>, Error> {
    if can_fail_over(client, slot).await? { log_end(client).await.map(Some) } else { Ok(None) }
}

async fn can_fail_over(client: &Client, slot: &str) -> Result<bool, Error> {
    // As JSON, because the view has this column only since Postgres 17.
    const SQL: &str = "SELECT coalesce((to_jsonb(s) ->> 'failover')::boolean, false) \
          FROM pg_replication_slots s WHERE slot_name = $1";
    client.query_opt(SQL, &[&slot]).await?.map_or(Ok(false), |row| row.try_get(0))
}

/// Used for tables that were not remembered, because there were too many.
pub(crate) const ANY_TABLE: u32 = u32::MAX;

/// Rows of the tables `$4` were skipped, and one of these, or what it is a partition of, is
/// promised for the slot; or a partition of it, whose rows another publication sends under its own
/// name.
macro_rules! is_promised {
    () => {
        "(c.slot = $1 AND (c.outbox::oid = ANY($4::oid[]) \
             OR EXISTS (SELECT FROM unnest($4::oid[]) AS skipped(oid), \
                               pg_partition_ancestors(skipped.oid::regclass) AS a \
                         WHERE a.relid::oid = c.outbox::oid) \
             OR EXISTS (SELECT FROM pg_partition_ancestors(c.outbox) AS a \
                         WHERE a.relid::oid = ANY($4::oid[])) \
             OR 4294967295 = ANY($4::oid[]) AND NOT c.outbox::oid = ANY($5::oid[])))"
    };
}

/// The result of storing a position.
#[derive(Debug)]
pub(super) enum Stored {
    Done,
    /// Somebody has removed the slot's progress, or started a new one, or has promised messages
    /// that are not read here, or tables whose rows are not sent here.
    Gone,
    /// Rows of these tables were skipped, which are promised for the slot.
    Unread(Vec<String>),
}

/// A column of how far the relay is inside a transaction. It is set with the position that it
/// belongs to, and like it never moved back: a relay that was frozen may be late. A value that
/// depends on something else than the stored one can't be compared with it, and is more useful at
/// the next start.
macro_rules! inside {
    ($column:literal, $value:literal) => {
        concat!(
            $column,
            " = CASE WHEN $3 > position OR ($3 = position \
                       AND (inside_commit_lsn IS NULL OR inside_depends_on <> $9::text::uuid \
                            OR ($6, $7, $8) >= (inside_commit_lsn, inside_change_lsn, inside_events))) \
                     THEN ",
            $value,
            " ELSE ",
            $column,
            " END"
        )
    };
}

/// Stores positions of one slot, many times a second: its statement is prepared once.
pub(super) struct ProgressStatement {
    statement: Statement,
    reading: Reading,
    generation: String,
    /// What decides which rows and messages are events.
    depends_on: String,
    /// The slot is kept on standbys too.
    can_fail_over: bool,
}

impl ProgressStatement {
    pub(super) async fn prepare(
        client: &Client,
        reading: Reading,
        generation: String,
        depends_on: String,
    ) -> Result<Self, Error> {
        // Never move back: a relay that was frozen may be late, after another has continued.
        //
        // If a transaction has ended in the statement's snapshot, its commit is before the end of
        // the log that is read after it: once the position has passed that end, it is done (ADR
        // 20).
        //
        // Never past rows that were promised and skipped: a promise is visible in any snapshot that
        // is newer than such a row (ADR 21). Nor past messages that were promised and are not
        // read, or rows that were promised and are not sent: nobody has seen them.
        const SQL: &str = concat!(
            "UPDATE postrider.progress \
                SET position = greatest(position, $3), updated_at = clock_timestamp(), \
                    done_before = CASE WHEN probe_lsn <= $3 THEN probe_xid ELSE done_before END, \
                    probe_xid = CASE WHEN probe_lsn > $3 THEN probe_xid \
                                     ELSE pg_snapshot_xmin(pg_current_snapshot()) END, \
                    probe_lsn = CASE WHEN probe_lsn > $3 THEN probe_lsn \
                                     ELSE pg_current_wal_insert_lsn() END, ",
            inside!("inside_commit_lsn", "$6::pg_lsn"),
            ", ",
            inside!("inside_change_lsn", "$7::pg_lsn"),
            ", ",
            inside!("inside_events", "$8::bigint"),
            ", ",
            inside!("inside_depends_on", "$9::text::uuid"),
            " WHERE slot = $1 AND generation = $2::text::uuid \
                AND NOT (cardinality($4::oid[]) > 0 \
                         AND EXISTS (SELECT FROM postrider.coverage c WHERE ",
            is_promised!(),
            ")) \
                AND ($10 OR NOT EXISTS (SELECT FROM postrider.message_slot m WHERE m.slot = $1)) \
                AND NOT EXISTS (SELECT FROM postrider.coverage v \
                        WHERE v.slot = $1 AND NOT v.outbox::oid = ANY($5::oid[]) AND ",
            other_way!("$11::text"),
            " IS NOT NULL)"
        );
        // A position that is confirmed to the slot must not be lost in a crash.
        Purpose::ProgressWriter.begin(client).await?;
        let can_fail_over = can_fail_over(client, &reading.slot).await?;
        if can_fail_over {
            // Standbys have a copy of such a slot: what is confirmed to it must be stored there
            // too.
            client.batch_execute("SET synchronous_commit = on").await?;
        }
        let statement = client.prepare(SQL).await?;
        Ok(ProgressStatement { statement, reading, generation, depends_on, can_fail_over })
    }

    /// How far the stream must have been read before the position just stored may be confirmed.
    pub(super) async fn safe_once_read_to(&self, client: &Client) -> Result<Option<Lsn>, Error> {
        if self.can_fail_over { log_end(client).await.map(Some) } else { Ok(None) }
    }

    /// Stores what is done. `skipped`: the tables of which rows were skipped since the last time.
    pub(super) async fn store(
        &self,
        client: &Client,
        done: Done,
        skipped: &[u32],
    ) -> Result<Stored, Error> {
        let lsn = |lsn: Lsn| PgLsn::from(lsn.bytes());
        let position = lsn(done.confirmed().lsn());
        let inside = done.inside();
        let commit_lsn = inside.map(|it| lsn(it.commit_lsn()));
        let change_lsn = inside.map(|it| lsn(it.change_lsn()));
        let events = inside.map(|it| i64::try_from(it.events()).unwrap_or(i64::MAX));
        let depends_on = inside.map(|_| &self.depends_on);
        let Reading { slot, publication, tables, reads_messages, .. } = &self.reading;
        let values: [&(dyn ToSql + Sync); 11] = [
            slot,
            &self.generation,
            &position,
            &skipped,
            tables,
            &commit_lsn,
            &change_lsn,
            &events,
            &depends_on,
            reads_messages,
            publication,
        ];
        match client.execute(&self.statement, &values).await? {
            1 => Ok(Stored::Done),
            _ => self.why_not(client, skipped).await,
        }
    }

    async fn why_not(&self, client: &Client, skipped: &[u32]) -> Result<Stored, Error> {
        // Numbered like those of the statement above: unused parameters are named to have a type.
        const PROMISED: &str = concat!(
            "SELECT coalesce(format('%I.%I', c.schema_name, c.table_name), c.outbox::text) \
               FROM postrider.coverage c \
              WHERE $2::text IS NULL AND $3::text IS NULL AND ",
            is_promised!(),
            " ORDER BY 1"
        );
        let none: Option<&str> = None;
        let Reading { slot, tables, .. } = &self.reading;
        let values: [&(dyn ToSql + Sync); 5] = [slot, &none, &none, &skipped, tables];
        let rows = client.query(PROMISED, &values).await?;
        let tables: Vec<String> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        Ok(if tables.is_empty() { Stored::Gone } else { Stored::Unread(tables) })
    }
}
