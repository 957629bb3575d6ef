//! Up to which `created_at` it is uncertain whether a leaf's rows were in every slot. Rows with a
//! later one can be certain. It is stored in `postrider.cleaner_floor`.
//!
//! Transaction ids are reliable for a limited time only: a row has 32 bits of its transaction's id,
//! which are reused, and when a table is rewritten, one new transaction has written all its rows. A
//! partition can have rows from before it was attached. So the rows that are not certain are noted
//! once, by the largest `created_at` among them: as long as nothing changes, there will not be
//! others with a later one.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use super::sql;
use super::table::{CleanableTable, Leaf};
use postrider_core::cleaning::rule::CoverageFingerprint;
use postrider_core::transaction_age::{InDoubt, age_max};

/// All rows of a table are read once, however long that takes, and a cancelled read starts over. So
/// the limit is 30 minutes, or longer if the table can't be read in that time at 4 MB/s.
const SET_TIMEOUT: &str = "
    SELECT set_config('statement_timeout',
        least(greatest(1800000, pg_relation_size($1::oid::regclass) / 4096), 2147483647)::text, true)";

/// Notes how the leaf is covered, if that is new. `since` is the fingerprint's for a leaf that has
/// been in the table since its creation, or for longer than the slots; for a leaf that was attached
/// with its rows, or if a publication was changed, it is now.
const NOTE: &str = "
    WITH RECURSIVE chain AS (
        SELECT h.inhrelid, h.inhparent, h.xmin AS linked
          FROM pg_inherits h JOIN pg_class k ON k.oid = h.inhrelid AND k.relispartition
         WHERE h.inhrelid = $2 AND $2 <> $3::oid
        UNION ALL
        SELECT h.inhrelid, h.inhparent, h.xmin
          FROM chain JOIN pg_inherits h ON h.inhrelid = chain.inhparent
         WHERE chain.inhparent <> $3),
    links AS (
        SELECT concat_ws(' ', nullif($7::text, '\"created_at\"'),
                   (SELECT string_agg(linked::text, ',' ORDER BY inhrelid) FROM chain),
                   (SELECT string_agg(b.xmin::text, ',' ORDER BY b.oid) FROM pg_publication b
                     WHERE b.oid IN (SELECT c.membership FROM postrider.coverage c
                                      WHERE c.outbox::oid = ANY($6)
                                     UNION SELECT r.prpubid FROM postrider.coverage c
                                       JOIN pg_publication_rel r ON r.oid = c.membership
                                      WHERE c.outbox::oid = ANY($6)))) AS link,
               (SELECT coalesce(bool_and(chain.linked = t.xmin
                                         OR age(chain.linked) NOT BETWEEN 0 AND AGE_MAX), true)
                  FROM chain JOIN pg_class c ON c.oid = chain.inhrelid
                  JOIN pg_type t ON t.oid = c.reltype) AS is_plain)
    INSERT INTO postrider.cleaner_floor AS f (slot, leaf, marks, link, since)
    SELECT $1, $2, $4, links.link,
           CASE WHEN links.is_plain AND NOT EXISTS (
                    SELECT FROM postrider.cleaner_floor o
                     WHERE o.slot = $1 AND o.leaf = $2 AND o.marks = $4)
                THEN $5::text::xid8 ELSE pg_snapshot_xmax(pg_current_snapshot()) END
      FROM links
    ON CONFLICT (slot, leaf) DO UPDATE
       SET marks = excluded.marks, link = excluded.link, since = excluded.since, floor = NULL
     WHERE (f.marks, f.link) <> (excluded.marks, excluded.link)";

/// Up to which `created_at` rows of the leaf are uncertain. None: open transactions may still add
/// such rows.
pub(super) async fn find(
    client: &Client,
    outbox: &CleanableTable,
    leaf: &Leaf,
    slot: &str,
    fingerprint: &CoverageFingerprint,
) -> Result<Option<String>, Error> {
    let since = fingerprint.since.to_string();
    let note = NOTE.replace("AGE_MAX", &age_max("$5::text", InDoubt::Old));
    let values: [&(dyn ToSql + Sync); 7] = [
        &slot,
        &leaf.oid,
        &outbox.oid,
        &fingerprint.text,
        &since,
        &outbox.family,
        &outbox.created_at,
    ];
    client.execute(&note, &values).await?;
    if let Some(known) = load(client, leaf, slot).await? {
        return Ok(Some(known));
    }
    determine(client, outbox, leaf, slot).await?;
    load(client, leaf, slot).await
}

async fn load(client: &Client, leaf: &Leaf, slot: &str) -> Result<Option<String>, Error> {
    const SQL: &str =
        "SELECT floor::text FROM postrider.cleaner_floor WHERE slot = $1 AND leaf = $2";
    let row = client.query_opt(SQL, &[&slot, &leaf.oid]).await?;
    row.map_or(Ok(None), |row| row.try_get(0))
}

/// Whether even rows that are written now would be uncertain.
pub(super) async fn is_in_the_future(
    client: &Client,
    uncertain_until: &str,
) -> Result<bool, Error> {
    const SQL: &str = "SELECT $1::text::timestamptz > now()";
    client.query_one(SQL, &[&uncertain_until]).await?.try_get(0)
}

/// All transactions from before `since` must have ended: then they can add no more rows.
async fn determine(
    client: &Client,
    outbox: &CleanableTable,
    leaf: &Leaf,
    slot: &str,
) -> Result<(), Error> {
    let sql = format!(
        "UPDATE postrider.cleaner_floor AS f \
            SET floor = coalesce((SELECT max(t.{created_at}::timestamptz) FROM {leaf} \
                                   WHERE NOT age(t.xmin) BETWEEN 0 AND {age_max}), '-infinity') \
          WHERE f.slot = $1 AND f.leaf = $2 AND f.floor IS NULL \
            AND pg_snapshot_xmin(pg_current_snapshot()) >= f.since",
        created_at = outbox.created_at,
        leaf = sql::only(leaf),
        age_max = age_max("f.since::text", InDoubt::Old),
    );
    client.batch_execute("BEGIN").await?;
    let determined = match client.execute(SET_TIMEOUT, &[&leaf.oid]).await {
        Ok(_) => client.execute(&sql, &[&slot, &leaf.oid]).await,
        Err(error) => Err(error),
    };
    client.batch_execute(if determined.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    determined.map(|_| ())
}

pub(super) async fn forget_dropped_leaves(client: &Client, slot: &str) -> Result<(), Error> {
    const SQL: &str = "DELETE FROM postrider.cleaner_floor f \
        WHERE slot = $1 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.leaf)";
    client.execute(SQL, &[&slot]).await?;
    Ok(())
}
