//! The tables `postrider.progress` and `postrider.coverage`: all SQL on them that the relay runs.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{PgLsn, ToSql};
use tokio_postgres::{Client, Error, Statement};

use super::{Identity, Progress};
use crate::lsn::Lsn;

/// A statement that takes longer than this is stuck, and what was not flushed is not stored, whatever
/// the database's defaults say.
const SESSION: &str = "SET synchronous_commit = on; SET statement_timeout = '30s'; \
    SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
    SET search_path = pg_catalog, pg_temp; SET application_name = 'postrider progress'";

/// What is stored of a slot, if anything.
pub async fn load(client: &Client, slot: &str) -> Result<Option<Progress>, Error> {
    const SQL: &str = "SELECT generation::text, system_identifier, position, \
                done_before IS NOT NULL \
         FROM postrider.progress WHERE slot = $1";
    let read = |row: &tokio_postgres::Row| {
        let position: PgLsn = row.try_get(2)?;
        Ok(Progress {
            generation: row.try_get(0)?,
            system_identifier: row.try_get(1)?,
            position: Lsn::new(position.into()),
            has_moved: row.try_get(3)?,
        })
    };
    client.query_opt(SQL, &[&slot]).await?.as_ref().map(read).transpose()
}

/// Makes a session one that writes what must not be forgotten.
pub async fn begin_session(client: &Client) -> Result<(), Error> {
    client.batch_execute("SET synchronous_commit = on; SET lock_timeout = '10s'").await
}

/// Stores where a slot stands of which nothing is stored yet; says whether that was so. Nobody else
/// may be able to move it.
pub async fn adopt(client: &Client, slot: &str, position: Lsn) -> Result<bool, Error> {
    const SQL: &str = "INSERT INTO postrider.progress (slot, position) VALUES ($1, $2) \
         ON CONFLICT (slot) DO NOTHING";
    Ok(client.execute(SQL, &[&slot, &PgLsn::from(position.bytes())]).await? == 1)
}

/// Whether the slot may still have to read log from before the publication was created.
///
/// A slot holds back catalog rows from the oldest transaction on that was not over where it reads
/// (`catalog_xmin`). A publication of an earlier transaction was there; one of a later transaction
/// perhaps not: the slot can be further than its `catalog_xmin` shows, which also takes over that of
/// other slots when a slot is created.
pub async fn may_predate(client: &Client, slot: &str, publication: &str) -> Result<bool, Error> {
    const SQL: &str = "SELECT coalesce((SELECT age(p.xmin) <= age(s.catalog_xmin) \
          FROM pg_replication_slots s, pg_publication p \
         WHERE s.slot_name = $1 AND p.pubname = $2), false)";
    client.query_one(SQL, &[&slot, &publication]).await?.try_get(0)
}

/// Whether the server leaves out rows from before the publication without an error.
pub async fn skips_in_silence(client: &Client) -> Result<bool, Error> {
    const SQL: &str = "SELECT current_setting('server_version_num')::int >= 180000";
    client.query_one(SQL, &[]).await?.try_get(0)
}

/// The same as [`may_predate`], as certain as can be: the server is asked to read on from where a slot
/// stands that nobody uses. A server that would leave out rows in silence can't be asked.
pub async fn predates(client: &Client, slot: &str, publication: &str) -> Result<bool, Error> {
    const PEEK: &str = "SELECT FROM pg_logical_slot_peek_binary_changes($1, NULL, 1, \
        'proto_version', '1', 'publication_names', $2) LIMIT 1";
    if !may_predate(client, slot, publication).await? {
        return Ok(false);
    }
    if skips_in_silence(client).await? {
        return Ok(true);
    }
    let names = crate::config::quote_identifier(publication);
    match client.query_opt(PEEK, &[&slot, &names]).await {
        Ok(_) => Ok(false),
        Err(error) => match error.code() {
            Some(code) if *code == SqlState::UNDEFINED_OBJECT => Ok(true),
            // Somebody reads it.
            Some(code) if *code == SqlState::OBJECT_IN_USE => Ok(false),
            _ => Err(error),
        },
    }
}

/// Notes which server it is.
pub async fn identify(client: &Client, slot: &str, here: &Identity) -> Result<(), Error> {
    const SQL: &str = "UPDATE postrider.progress SET system_identifier = $2, timeline = $3 \
         WHERE slot = $1 AND (system_identifier, timeline) IS DISTINCT FROM ($2, $3)";
    client.execute(SQL, &[&slot, &here.system_identifier, &here.timeline]).await?;
    Ok(())
}

/// The publication `$2` has the table of the coverage `c` as it had it when the slot came to cover it.
macro_rules! is_still_published {
    () => {
        "EXISTS (SELECT FROM pg_publication b \
                   LEFT JOIN pg_publication_rel r \
                     ON r.prpubid = b.oid AND r.prrelid = c.outbox::oid \
                  WHERE b.pubname = $2 AND coalesce(r.oid, b.oid) = c.membership)"
    };
}
pub(crate) use is_still_published;

/// Which of the tables are not any more in the publication as they were when the slot came to cover
/// them.
pub async fn lapsed(
    client: &Client,
    slot: &str,
    publication: &str,
    tables: &[u32],
) -> Result<Vec<String>, Error> {
    const SQL: &str = concat!(
        "SELECT c.outbox::oid::regclass::text FROM postrider.coverage c \
          WHERE c.slot = $1 AND c.outbox::oid = ANY($3) AND NOT ",
        is_still_published!(),
        " ORDER BY 1"
    );
    let rows = client.query(SQL, &[&slot, &publication, &tables]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// Notes which tables the slot covers from now on. What is published of a table begins anew when it
/// was out of the configuration for a while.
pub async fn cover(
    client: &Client,
    slot: &str,
    publication: &str,
    tables: &[u32],
) -> Result<(), Error> {
    const FORGET: &str = "DELETE FROM postrider.coverage \
         WHERE slot = $1 AND NOT outbox::oid = ANY($2)";
    client.execute(FORGET, &[&slot, &tables]).await?;
    client.execute(&cover_statement("$1", "$2", "$3"), &[&slot, &publication, &tables]).await?;
    Ok(())
}

/// The statement that adds tables to what a slot covers, if progress of it is stored. Expressions in
/// SQL are its arguments. What is known of the others stays: see [`lapsed`].
pub(crate) fn cover_statement(slot: &str, publication: &str, tables: &str) -> String {
    // Transactions from pg_snapshot_xmax on have not begun: whatever they write is written after the
    // slot was made, and after the table was seen in the publication.
    format!(
        "INSERT INTO postrider.coverage (slot, outbox, membership, since) \
         SELECT p.slot, t.oid::regclass, coalesce(r.oid, b.oid), \
                pg_snapshot_xmax(pg_current_snapshot()) \
           FROM postrider.progress p JOIN pg_publication b ON b.pubname = {publication} \
          CROSS JOIN unnest({tables}::oid[]) AS t(oid) \
           LEFT JOIN pg_publication_rel r ON r.prpubid = b.oid AND r.prrelid = t.oid \
          WHERE p.slot = {slot} \
         ON CONFLICT (slot, outbox) DO NOTHING"
    )
}

/// How far the stream must have come before the slot may be told what is stored; none: it may be told
/// at once.
///
/// Standbys copy where a failover slot stands, and what is stored comes to them with the log. The
/// server shows such a slot only what its standbys have (`synchronized_standby_slots`): when it shows
/// what lies behind this, they have the stored position too, and a promoted one is never found to have
/// a slot that is further.
pub async fn shown_by(client: &Client, slot: &str) -> Result<Option<Lsn>, Error> {
    match can_fail_over(client, slot).await? {
        true => log_end(client).await.map(Some),
        false => Ok(None),
    }
}

async fn can_fail_over(client: &Client, slot: &str) -> Result<bool, Error> {
    // As JSON, because the view has this column only since Postgres 17.
    const SQL: &str = "SELECT coalesce((to_jsonb(s) ->> 'failover')::boolean, false) \
          FROM pg_replication_slots s WHERE slot_name = $1";
    client.query_opt(SQL, &[&slot]).await?.map_or(Ok(false), |row| row.try_get(0))
}

/// Where the log ends.
pub async fn log_end(client: &Client) -> Result<Lsn, Error> {
    let row = client.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?;
    Ok(Lsn::new(row.try_get::<_, PgLsn>(0)?.into()))
}

/// Stores positions of one slot, many times a second: its statement is prepared once.
pub(super) struct Storing {
    statement: Statement,
    slot: String,
    generation: String,
    /// The slot is kept on standbys too.
    can_fail_over: bool,
}

impl Storing {
    pub(super) async fn prepare(
        client: &Client,
        slot: String,
        generation: String,
    ) -> Result<Self, Error> {
        // Never back: a relay that was frozen may come late, when another has gone on.
        //
        // Of a transaction that is over in the statement's snapshot the commit lies before the end of
        // the log that is read after it: once the position has passed that end, it is done (ADR 20).
        const SQL: &str = "UPDATE postrider.progress \
                SET position = greatest(position, $3), updated_at = clock_timestamp(), \
                    done_before = CASE WHEN probe_lsn <= $3 THEN probe_xid ELSE done_before END, \
                    probe_xid = CASE WHEN probe_lsn > $3 THEN probe_xid \
                                     ELSE pg_snapshot_xmin(pg_current_snapshot()) END, \
                    probe_lsn = CASE WHEN probe_lsn > $3 THEN probe_lsn \
                                     ELSE pg_current_wal_insert_lsn() END \
              WHERE slot = $1 AND generation = $2::text::uuid";
        // Told to the slot, it must not be forgotten by a crash.
        client.batch_execute(SESSION).await?;
        let can_fail_over = can_fail_over(client, &slot).await?;
        let statement = client.prepare(SQL).await?;
        Ok(Storing { statement, slot, generation, can_fail_over })
    }

    /// How far the stream must have come before the slot may be told what was just stored.
    pub(super) async fn shown_by(&self, client: &Client) -> Result<Option<Lsn>, Error> {
        match self.can_fail_over {
            true => log_end(client).await.map(Some),
            false => Ok(None),
        }
    }

    /// Notes that the tables are in the publication, as they were when the slot came to cover them.
    pub(super) async fn note_intact(&self, client: &Client) -> Result<(), Error> {
        const SQL: &str = "UPDATE postrider.coverage c \
                SET intact_before = pg_snapshot_xmin(pg_current_snapshot()) \
              WHERE c.slot = $1 \
                AND (EXISTS (SELECT FROM pg_publication_rel r \
                              WHERE r.oid = c.membership AND r.prrelid = c.outbox::oid) \
                     OR EXISTS (SELECT FROM pg_publication b WHERE b.oid = c.membership))";
        client.execute(SQL, &[&self.slot]).await?;
        Ok(())
    }

    /// False: somebody has removed the slot's progress, or begun a new one.
    pub(super) async fn store(&self, client: &Client, position: Lsn) -> Result<bool, Error> {
        let position = PgLsn::from(position.bytes());
        let values: [&(dyn ToSql + Sync); 3] = [&self.slot, &self.generation, &position];
        Ok(client.execute(&self.statement, &values).await? == 1)
    }
}
