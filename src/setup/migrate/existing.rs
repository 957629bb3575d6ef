//! Rows that were in a table before its slot was created: the slot will never have them. They are
//! counted, and an operator decides what happens to them.

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::error::MigrateError;
use super::statements;
use crate::config::{OutboxTable, PostgresConfig};
use crate::plural::plural;
use crate::rights::has_rights;

/// Counting stops here; larger tables are estimated.
const COUNTED_MAX: i64 = 100_000;

/// The rights that are needed to store their number.
const NOTING: &[&str] = &["SELECT", "INSERT", "UPDATE"];

/// What happens to rows that are older than the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingRows {
    /// `postrider run` publishes them before anything else.
    Publish,
    /// They are left out, and not reported again.
    Skip,
}

/// Rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) table: String,
    /// The quoted name.
    quoted: String,
    pub(super) rows: Rows,
}

/// How many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Exactly(i64),
    About(i64),
    /// The role is not allowed to count them, and the server has no estimate.
    Unknown,
}

impl Rows {
    fn stored(self) -> Option<i64> {
        match self {
            Rows::Exactly(rows) | Rows::About(rows) => Some(rows),
            Rows::Unknown => None,
        }
    }

    fn read(rows: Option<i64>) -> Self {
        match rows {
            Some(rows) if rows > COUNTED_MAX => Rows::About(rows),
            Some(rows) => Rows::Exactly(rows),
            None => Rows::Unknown,
        }
    }
}

/// Counts the rows of each table that the slot does not cover yet, whether or not the slot exists:
/// the command that created it may have been killed before it stored anything. Tables without rows
/// are left out.
pub(super) async fn count(
    client: &Client,
    wanted: &PostgresConfig,
) -> Result<Vec<Count>, MigrateError> {
    const IS_COVERED: &str = "SELECT EXISTS (SELECT FROM postrider.coverage c \
         WHERE c.slot = $1 AND c.outbox::oid = to_regclass($2)::oid)";
    let failed = |error| MigrateError::statement("read what is promised", &error);
    let mut counts = Vec::new();
    if has_rights(client, "coverage", &["SELECT"]).await.map_err(failed)? != Some(true) {
        return Ok(counts);
    }
    for table in &wanted.tables {
        let quoted = table.name.quoted();
        let row = client.query_one(IS_COVERED, &[&wanted.slot, &quoted]).await.map_err(failed)?;
        if row.get(0) {
            continue;
        }
        let rows = count_table(client, table).await?;
        if rows != Rows::Exactly(0) {
            counts.push(Count { table: table.name.to_string(), quoted, rows });
        }
    }
    Ok(counts)
}

async fn count_table(client: &Client, table: &OutboxTable) -> Result<Rows, MigrateError> {
    // Policies could hide rows, and a count of the rest would be wrong.
    const LOOK: &str = "SELECT has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid), \
                c.relkind = 'p', \
                (SELECT sum(nullif(l.reltuples, -1))::bigint FROM pg_class l WHERE l.relkind = 'r' \
                    AND (l.oid = c.oid OR l.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))) \
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
          WHERE n.nspname = $1 AND c.relname = $2";
    let name = &table.name;
    let failed = |error| MigrateError::statement(format!("count the rows of {name}"), &error);
    let row = client.query_opt(LOOK, &[&name.schema, &name.name]).await.map_err(failed)?;
    let Some(row) = row else { return Ok(Rows::Exactly(0)) };
    let (may_count, is_partitioned): (bool, bool) = (row.get(0), row.get(1));
    let estimate: Option<i64> = row.get(2);
    if !may_count {
        return Ok(estimate.map_or(Rows::Unknown, Rows::About));
    }
    let only = if is_partitioned { "" } else { "ONLY " };
    let sql = format!(
        "SELECT count(*) FROM (SELECT FROM {only}{} LIMIT {COUNTED_MAX} + 1) AS t",
        name.quoted()
    );
    let rows: i64 = client.query_one(&sql, &[]).await.map_err(failed)?.get(0);
    Ok(if rows > COUNTED_MAX {
        Rows::About(rows.max(estimate.unwrap_or(0)))
    } else {
        Rows::Exactly(rows)
    })
}

/// Stores the number of rows that the slot will not have, if progress of the slot is stored, and if
/// the role is allowed to. This comes before the tables are promised: a later command counts only
/// rows of tables that are not.
pub(super) async fn store(
    client: &Client,
    wanted: &PostgresConfig,
    counts: &[Count],
    choice: Option<ExistingRows>,
) -> Result<(), MigrateError> {
    const SQL: &str = "INSERT INTO postrider.existing_rows (slot, outbox, rows, is_skipped) \
        SELECT p.slot, $2::text::regclass, $3, $4 FROM postrider.progress p WHERE p.slot = $1 \
        ON CONFLICT (slot, outbox) DO UPDATE \
           SET rows = excluded.rows, is_skipped = excluded.is_skipped";
    let failed = |error| MigrateError::statement("store the number of existing rows", &error);
    if has_rights(client, "existing_rows", NOTING).await.map_err(failed)? != Some(true)
        || has_rights(client, "progress", &["SELECT"]).await.map_err(failed)? != Some(true)
    {
        return Ok(());
    }
    let is_skipped = choice == Some(ExistingRows::Skip);
    for Count { quoted, rows, .. } in counts {
        let values: [&(dyn ToSql + Sync); 4] = [&wanted.slot, quoted, &rows.stored(), &is_skipped];
        client.execute(SQL, &values).await.map_err(failed)?;
    }
    Ok(())
}

/// The rows that were counted when the slot began to cover the tables, and that nobody has decided
/// about since. The decision to skip them is stored.
pub(super) async fn undecided(
    client: &Client,
    wanted: &PostgresConfig,
    choice: Option<ExistingRows>,
) -> Result<Vec<Count>, MigrateError> {
    const SKIP: &str = "UPDATE postrider.existing_rows SET is_skipped = true WHERE slot = $1";
    // Rows that were published from the table since are covered.
    const LOOK: &str = "SELECT e.rows FROM postrider.existing_rows e \
         WHERE e.slot = $1 AND e.outbox::oid = to_regclass($2)::oid AND NOT e.is_skipped \
           AND NOT EXISTS (SELECT FROM postrider.coverage c WHERE c.slot = e.slot \
                              AND c.outbox = e.outbox AND c.since = '3')";
    let failed =
        |error| MigrateError::statement("look for rows that are older than the slot", &error);
    if has_rights(client, "existing_rows", NOTING).await.map_err(failed)? != Some(true) {
        return Ok(Vec::new());
    }
    if choice == Some(ExistingRows::Skip) {
        client.execute(SKIP, &[&wanted.slot]).await.map_err(failed)?;
    }
    let mut counts = Vec::new();
    for table in &wanted.tables {
        let (name, quoted) = (table.name.to_string(), table.name.quoted());
        let row = client.query_opt(LOOK, &[&wanted.slot, &quoted]).await.map_err(failed)?;
        if let Some(row) = row {
            counts.push(Count { table: name, quoted, rows: Rows::read(row.get(0)) });
        }
    }
    Ok(counts)
}

/// Stores that the rows are to be published, which `postrider run` does before it reads the slot. A
/// slot that exists is kept, and must not have been read: it would be unknown which of the rows
/// were published.
pub(super) async fn begin_publishing(
    client: &Client,
    wanted: &PostgresConfig,
    is_slot_there: bool,
) -> Result<(), MigrateError> {
    let slot = &wanted.slot;
    let failed = |error| MigrateError::statement("store that rows are to be published", &error);
    if is_slot_there && !is_publishing(client, slot).await? && !can_publish(client, wanted).await? {
        return Err(MigrateError::SlotRead { slot: slot.clone() });
    }
    client.batch_execute(&statements::begin_snapshot(wanted)).await.map_err(failed)
}

/// Whether the rows can be published before what the slot has: nobody has read it.
pub(super) async fn can_publish(
    client: &Client,
    wanted: &PostgresConfig,
) -> Result<bool, MigrateError> {
    const IS_UNREAD: &str = "SELECT EXISTS (SELECT FROM postrider.progress p \
          JOIN pg_replication_slots s ON s.slot_name = p.slot AND NOT s.active \
         WHERE p.slot = $1 AND p.system_identifier IS NULL)";
    let failed = |error| MigrateError::statement("check whether the slot was read", &error);
    Ok(client.query_one(IS_UNREAD, &[&wanted.slot]).await.map_err(failed)?.get(0))
}

/// Whether `postrider run` publishes rows of the tables before it reads the slot.
pub(super) async fn is_publishing(client: &Client, slot: &str) -> Result<bool, MigrateError> {
    const SQL: &str = "SELECT EXISTS (SELECT FROM postrider.backfill WHERE slot = $1)";
    let failed = |error| MigrateError::statement("look for rows that are to be published", &error);
    if has_rights(client, "backfill", &["SELECT"]).await.map_err(failed)? != Some(true) {
        return Ok(false);
    }
    Ok(client.query_one(SQL, &[&slot]).await.map_err(failed)?.get(0))
}

/// For people. `can_publish`: nobody has read the slot.
pub(super) fn note(slot: &str, count: &Count, can_publish: bool) -> String {
    let table = &count.table;
    let (what, them) = match count.rows {
        Rows::Exactly(rows) | Rows::About(rows) => {
            let about = if matches!(count.rows, Rows::About(_)) { "about " } else { "" };
            let (are, them) = if rows == 1 { ("is", "it") } else { ("are", "them") };
            (format!("{about}{} of {table} {are}", plural(rows.unsigned_abs(), "row")), them)
        }
        Rows::Unknown => (format!("rows of {table}, if it has any, are"), "them"),
    };
    let skip = "`postrider migrate --existing-rows skip`";
    if can_publish {
        format!(
            "{what} older than slot {slot} and will not be published. To publish {them}, run \
         `postrider migrate --existing-rows publish` before the relay is started; to leave \
         {them} out for good, run {skip}"
        )
    } else {
        format!(
            "{what} in the table already: rows that were written before slot {slot} covered the \
         table will not be published. The slot may have been read, so a new one is needed to \
         publish {them}: `postrider migrate --existing-rows publish` explains how; to leave \
         {them} out for good, run {skip}"
        )
    }
}
