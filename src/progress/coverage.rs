//! The table `postrider.coverage`: what is promised for each slot, and whether it is kept (ADR 21).
//!
//! A slot has every row of a table only if the table was always in the publication. There is a
//! history of that nowhere, but every change leaves a trace in the catalogs, so these traces are
//! stored when the promise is made, and compared:
//!
//! - what puts the table into the publication has an OID, which is never used again;
//! - `ALTER PUBLICATION … SET (publish = …)` writes the publication's row in `pg_publication`, so
//!   its `xmin` changes, which it does not when tables are added or dropped. A new owner writes it
//!   too, and could hide such a change, so it counts as one;
//! - a table that is not listed by name, and any partition, can be UNLOGGED for a while. That
//!   rewrites it, and an `ALTER TABLE` that rewrites a table gives it another TOAST table; VACUUM
//!   FULL, CLUSTER and TRUNCATE keep it;
//! - a table that is published with its schema can be moved out of it and back, which writes the
//!   row of its type in `pg_type`;
//! - a table that was replaced has the same name and another OID.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use super::promise::{Found, Promise};
use crate::config::TableName;

/// No transaction has this number: rows count as covered only from a moment at which the promise is
/// visible to everybody. See [`settle_statement`].
const NOT_YET: &str = "9223372036854775807";

/// What puts the table `k` into the publication `b`, the most direct first. Entries of schemas are
/// found by what depends on the publication (6237 is pg_publication_namespace): Postgres 14 has no
/// such catalog.
macro_rules! entries {
    () => {
        "SELECT r.oid AS membership, 1 AS rank FROM pg_publication_rel r \
          WHERE r.prpubid = b.oid AND r.prrelid = k.oid \
         UNION ALL \
         SELECT r.oid, 2 FROM pg_partition_ancestors(k.oid::regclass) a \
           JOIN pg_publication_rel r ON r.prrelid = a.relid::oid \
          WHERE r.prpubid = b.oid AND a.relid::oid <> k.oid \
         UNION ALL \
         SELECT d.objid, 3 FROM pg_depend d \
           JOIN pg_depend s ON s.classid = d.classid AND s.objid = d.objid \
          WHERE d.classid = 6237 AND d.refclassid = 'pg_publication'::regclass \
            AND d.refobjid = b.oid AND s.refclassid = 'pg_namespace'::regclass \
            AND s.refobjid IN (SELECT k.relnamespace UNION ALL \
                SELECT up.relnamespace FROM pg_partition_ancestors(k.oid::regclass) a \
                  JOIN pg_class up ON up.oid = a.relid::oid) \
         UNION ALL \
         SELECT b.oid, 4 WHERE b.puballtables"
    };
}

/// The state of the table `k`, of type `y`, that is in the publication by the entry `e`.
macro_rules! table_state {
    () => {
        "concat_ws(' ', e.rank, \
             CASE WHEN e.rank > 1 THEN k.reltoastrelid END, \
             CASE WHEN e.rank = 2 THEN ( \
                 SELECT string_agg(h.xmin::text, ' ' ORDER BY h.inhrelid) FROM pg_inherits h \
                   JOIN pg_partition_ancestors(k.oid::regclass) a ON a.relid::oid = h.inhrelid) END, \
             CASE WHEN e.rank = 3 THEN y.xmin::text END)"
    };
}

/// The partitions `l` that have the rows of the table `k`, with a list to select and a condition.
macro_rules! of_leaves {
    ($select:literal, $where:literal) => {
        concat!(
            "(WITH RECURSIVE below (oid) AS ( \
                 SELECT h.inhrelid FROM pg_inherits h WHERE h.inhparent = k.oid AND k.relkind = 'p' \
                 UNION SELECT h.inhrelid FROM pg_inherits h JOIN below ON h.inhparent = below.oid) \
             SELECT ",
            $select,
            " FROM below JOIN pg_class l ON l.oid = below.oid AND l.relkind = 'r' ",
            $where,
            ")"
        )
    };
}

/// All rows of the table `k` go through the log.
macro_rules! is_logged {
    () => {
        concat!(
            "(k.relpersistence = 'p' AND NOT EXISTS ",
            $crate::progress::coverage::of_leaves!("", "WHERE l.relpersistence <> 'p'"),
            ")"
        )
    };
}

/// The TOAST tables of the partitions of the table `k`.
macro_rules! leaves {
    () => {
        $crate::progress::coverage::of_leaves!(
            "jsonb_object_agg(l.oid::text, l.reltoastrelid::bigint)",
            ""
        )
    };
}

/// No known partition was rewritten. Partitions may be added and dropped.
macro_rules! same_leaves {
    () => {
        concat!(
            "NOT EXISTS ",
            $crate::progress::coverage::of_leaves!(
                "",
                "WHERE v.leaves ->> l.oid::text <> l.reltoastrelid::text"
            )
        )
    };
}

/// The promises that are kept: the one place that defines this. Those from before there was a
/// `table_state` count as kept if their membership is right.
macro_rules! kept {
    () => {
        concat!(
            "SELECT v.slot, v.outbox::oid AS outbox, b.pubname, e.membership, \
                    b.xmin::text AS publication_xmin, b.pubowner AS publication_owner, ",
            $crate::progress::coverage::table_state!(),
            " AS table_state, ",
            $crate::progress::coverage::leaves!(),
            " AS leaves, m.nspname AS schema_name, k.relname AS table_name \
               FROM postrider.coverage v \
               JOIN pg_class k ON k.oid = v.outbox::oid AND ",
            $crate::progress::coverage::is_logged!(),
            "  JOIN pg_namespace m ON m.oid = k.relnamespace \
               JOIN pg_type y ON y.oid = k.reltype \
               JOIN pg_publication b ON b.pubinsert \
              CROSS JOIN LATERAL ( \
                  SELECT e.membership, e.rank FROM (",
            $crate::progress::coverage::entries!(),
            ") AS e WHERE e.membership = v.membership \
                      OR v.table_state IS NULL AND v.membership = b.oid AND e.rank > 1 \
                  ORDER BY e.rank LIMIT 1) AS e \
              WHERE v.table_state IS NULL \
                 OR v.table_state = ",
            $crate::progress::coverage::table_state!(),
            "   AND v.publication_xmin = b.xmin::text AND ",
            $crate::progress::coverage::same_leaves!()
        )
    };
}

/// The publication that the promise `v` was made through, if it is another than the one named and
/// that one does not send all rows of the table. A relay of that one never gets a row of it, and a
/// relay of the other one finds nothing changed. A row filter leaves rows out (from Postgres 15 on;
/// as JSON, because the catalog has the column only since then).
macro_rules! other_way {
    ($publication:literal) => {
        concat!(
            "(SELECT b.pubname::text FROM pg_class k CROSS JOIN pg_publication b \
               CROSS JOIN LATERAL (",
            $crate::progress::coverage::entries!(),
            ") AS e \
               WHERE k.oid = v.outbox::oid AND b.pubname <> ",
            $publication,
            "    AND (e.membership = v.membership \
                      OR v.table_state IS NULL AND v.membership = b.oid) \
                 AND NOT EXISTS ( \
                     SELECT FROM pg_publication b CROSS JOIN LATERAL (",
            $crate::progress::coverage::entries!(),
            ") AS e \
                      WHERE b.pubinsert AND b.pubname = ",
            $publication,
            "           AND NOT EXISTS (SELECT FROM pg_publication_rel f \
                                WHERE e.rank <= 2 AND f.oid = e.membership \
                                  AND to_jsonb(f) ->> 'prqual' IS NOT NULL)) \
               ORDER BY 1 LIMIT 1)"
        )
    };
}
pub(crate) use {entries, is_logged, kept, leaves, of_leaves, other_way, same_leaves, table_state};

/// The promises for a slot, as the catalogs have them now. `tables` are those that are read.
pub(crate) async fn find_promises(
    client: &Client,
    slot: &str,
    publication: &str,
    tables: &[TableName],
) -> Result<Vec<Promise>, Error> {
    const SQL: &str = concat!(
        "SELECT v.outbox::oid, v.schema_name, v.table_name, n.nspname::text, k.relname::text, \
                o.oid IS NOT NULL, coalesce(NOT ",
        is_logged!(),
        ", false), now.outbox IS NOT NULL, ",
        other_way!("$2"),
        "  FROM postrider.coverage v \
           LEFT JOIN pg_class k ON k.oid = v.outbox::oid \
           LEFT JOIN pg_namespace n ON n.oid = k.relnamespace \
           LEFT JOIN pg_namespace i ON i.nspname = v.schema_name \
           LEFT JOIN pg_class o \
             ON o.relnamespace = i.oid AND o.relname = v.table_name AND o.oid <> v.outbox::oid \
           LEFT JOIN (",
        kept!(),
        ") AS now ON now.slot = v.slot AND now.outbox = v.outbox::oid AND now.pubname = $2 \
          WHERE v.slot = $1 ORDER BY 2, 3, 1"
    );
    let read = |row: &tokio_postgres::Row| {
        let name = |schema: Option<String>, name: Option<String>| match (schema, name) {
            (Some(schema), Some(name)) => Some(TableName { schema, name }),
            _ => None,
        };
        let found = Found {
            outbox: row.try_get(0)?,
            known_as: name(row.try_get(1)?, row.try_get(2)?),
            name: name(row.try_get(3)?, row.try_get(4)?),
            is_replaced: row.try_get(5)?,
            is_unlogged: row.try_get(6)?,
            is_kept: row.try_get(7)?,
            through: row.try_get(8)?,
        };
        Ok(found.judge(publication, tables))
    };
    client.query(SQL, &[&slot, &publication]).await?.iter().map(read).collect()
}

/// The table's name, and those by which promises know it: it may have been renamed since.
pub(crate) async fn names_of(client: &Client, table: &TableName) -> Result<Vec<String>, Error> {
    const SQL: &str = "SELECT DISTINCT c.schema_name, c.table_name FROM postrider.coverage c \
           JOIN pg_class k ON k.oid = c.outbox::oid JOIN pg_namespace n ON n.oid = k.relnamespace \
          WHERE n.nspname = $1 AND k.relname = $2 \
            AND (c.schema_name, c.table_name) <> ($1, $2)";
    let mut names = vec![table.to_string()];
    for row in client.query(SQL, &[&table.schema, &table.name]).await? {
        names.push(TableName { schema: row.try_get(0)?, name: row.try_get(1)? }.to_string());
    }
    Ok(names)
}

/// Tables that are read and were promised under an earlier name: that name, and the present one.
pub(crate) async fn renames(
    client: &Client,
    tables: &[TableName],
) -> Result<Vec<(TableName, TableName)>, Error> {
    const SQL: &str = "SELECT DISTINCT c.schema_name, c.table_name, n.nspname::text, k.relname::text \
           FROM postrider.coverage c JOIN pg_class k ON k.oid = c.outbox::oid \
           JOIN pg_namespace n ON n.oid = k.relnamespace \
          WHERE (n.nspname::text, k.relname::text) IN (SELECT * FROM unnest($1::text[], $2::text[])) \
            AND (c.schema_name, c.table_name) NOT IN (SELECT * FROM unnest($1::text[], $2::text[]))";
    let (schemas, names) = columns(tables);
    let read = |row: &tokio_postgres::Row| {
        let name = |at| Ok(TableName { schema: row.try_get(at)?, name: row.try_get(at + 1)? });
        Ok((name(0)?, name(2)?))
    };
    client.query(SQL, &[&schemas, &names]).await?.iter().map(read).collect()
}

/// Whether a promised table once had this name and was renamed.
pub(crate) async fn was_renamed(client: &Client, table: &TableName) -> Result<bool, Error> {
    const SQL: &str = "SELECT EXISTS (SELECT FROM postrider.coverage c \
           JOIN pg_class k ON k.oid = c.outbox::oid \
          WHERE c.schema_name = $1 AND c.table_name = $2)";
    client.query_one(SQL, &[&table.schema, &table.name]).await?.try_get(0)
}

/// Records that the tables are as they were when they were promised. Their names become those under
/// which they are read.
pub(crate) async fn note_intact(
    client: &Client,
    slot: &str,
    publication: &str,
    tables: &[TableName],
) -> Result<(), Error> {
    const SQL: &str = concat!(
        "UPDATE postrider.coverage c \
            SET intact_before = pg_snapshot_xmin(pg_current_snapshot()), \
                membership = now.membership, table_state = now.table_state, \
                leaves = now.leaves, \
                publication_xmin = now.publication_xmin, \
                publication_owner = now.publication_owner, \
                schema_name = CASE WHEN now.is_named OR c.schema_name IS NULL \
                                   THEN now.schema_name ELSE c.schema_name END, \
                table_name = CASE WHEN now.is_named OR c.schema_name IS NULL \
                                  THEN now.table_name ELSE c.table_name END \
           FROM (SELECT kept.*, (kept.schema_name::text, kept.table_name::text) IN ( \
                            SELECT * FROM unnest($3::text[], $4::text[])) AS is_named FROM (",
        kept!(),
        ") AS kept) AS now \
          WHERE c.slot = $1 AND now.slot = c.slot AND now.outbox = c.outbox::oid \
            AND now.pubname = $2"
    );
    let (schemas, names) = columns(tables);
    let values: [&(dyn ToSql + Sync); 4] = [&slot, &publication, &schemas, &names];
    client.execute(SQL, &values).await?;
    Ok(())
}

/// Records which tables are UNLOGGED: once they are logged again, nothing else would show it for a
/// table without a TOAST table, or for a new partition.
pub(crate) async fn note_unlogged(client: &Client, slot: &str) -> Result<(), Error> {
    const SQL: &str = concat!(
        "UPDATE postrider.coverage c SET table_state = 'unlogged' FROM pg_class k \
          WHERE c.slot = $1 AND k.oid = c.outbox::oid AND NOT ",
        is_logged!()
    );
    client.execute(SQL, &[&slot]).await?;
    Ok(())
}

/// Promises the tables for the slot from now on. What is promised already stays as it is.
pub async fn cover(
    client: &Client,
    slot: &str,
    publication: &str,
    tables: &[u32],
) -> Result<(), Error> {
    client.execute(&cover_statement("$1", "$2", "$3"), &[&slot, &publication, &tables]).await?;
    client.execute(&settle_statement("$1"), &[&slot]).await?;
    Ok(())
}

/// The statement that promises tables for a slot, if progress of it is stored. Expressions in SQL
/// are its arguments. It runs in the transaction that adds a table to the publication: then nobody
/// can read a row of the table without seeing the promise.
pub(crate) fn cover_statement(slot: &str, publication: &str, tables: &str) -> String {
    format!(
        "INSERT INTO postrider.coverage (slot, outbox, membership, since, schema_name, table_name, \
                publication_xmin, publication_owner, table_state, leaves) \
         SELECT p.slot, k.oid::regclass, e.membership, '{NOT_YET}', n.nspname, k.relname, \
                b.xmin::text, b.pubowner, {state}, {leaves} \
           FROM postrider.progress p JOIN pg_publication b ON b.pubname = {publication} \
           JOIN pg_class k ON k.oid = ANY({tables}::oid[]) \
           JOIN pg_namespace n ON n.oid = k.relnamespace JOIN pg_type y ON y.oid = k.reltype \
          CROSS JOIN LATERAL (SELECT * FROM ({entries}) AS e ORDER BY e.rank LIMIT 1) AS e \
          WHERE p.slot = {slot} \
         ON CONFLICT (slot, outbox) DO NOTHING",
        state = table_state!(),
        leaves = leaves!(),
        entries = entries!(),
    )
}

/// The statement that follows when the promise is committed. Transactions from pg_snapshot_xmax on
/// have not begun: whatever they write is written after the slot was made, after the table was seen
/// in the publication, and after every relay could see the promise.
pub(crate) fn settle_statement(slot: &str) -> String {
    format!(
        "UPDATE postrider.coverage SET since = pg_snapshot_xmax(pg_current_snapshot()) \
          WHERE slot = {slot} AND since = '{NOT_YET}'"
    )
}

/// From which transaction on rows of the tables may be missing in a slot that is lost, or that has
/// lapses; None: from the beginning. For a table that has replaced another, by what is known of
/// that.
pub(crate) async fn doubtful_since(
    client: &Client,
    slot: &str,
    publication: &str,
    tables: &[u32],
) -> Result<Vec<(u32, Option<String>)>, Error> {
    const SQL: &str = concat!(
        "SELECT t.oid, CASE WHEN p.done_before IS NULL OR count(c.outbox) = 0 THEN NULL \
                ELSE (array_agg(d.since ORDER BY d.since))[1] END::text \
           FROM unnest($3::oid[]) AS t(oid) \
           JOIN pg_class k ON k.oid = t.oid JOIN pg_namespace n ON n.oid = k.relnamespace \
           LEFT JOIN postrider.progress p ON p.slot = $1 \
           LEFT JOIN postrider.coverage c ON c.slot = $1 AND (c.outbox::oid = t.oid \
                OR (c.schema_name, c.table_name) = (n.nspname::text, k.relname::text)) \
           LEFT JOIN (",
        kept!(),
        ") AS now ON now.slot = c.slot AND now.outbox = c.outbox::oid AND now.outbox = t.oid \
                 AND now.pubname = $2 \
          CROSS JOIN LATERAL (SELECT least(p.done_before, CASE WHEN now.outbox IS NULL \
                    THEN coalesce(c.intact_before, c.since) END)) AS d(since) \
          GROUP BY t.oid, p.done_before"
    );
    let rows = client.query(SQL, &[&slot, &publication, &tables]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

pub(super) fn columns(tables: &[TableName]) -> (Vec<&str>, Vec<&str>) {
    tables.iter().map(|table| (table.schema.as_str(), table.name.as_str())).unzip()
}
