//! The statements that create what the relay needs. `migrate` runs those that are missing, and
//! `migrate --print` prints all of them.

use super::outbox_table;
use crate::config::{OutboxTable, PostgresConfig, TableName, quote_identifier};
use crate::postgres::{publication_mark_query, quote_literal};
use crate::progress::coverage::{cover_statement, other_way, settle_statement};
use crate::progress::store::promise_statement;
use crate::schema::{COMPATIBILITY, MIGRATIONS, Migration};

/// How long to wait for a lock on an outbox: its writers have to wait meanwhile.
pub(super) const LOCK_TIMEOUT: &str = "10s";

/// One thing to create.
pub(super) struct Step {
    /// For people, `table public.outbox`.
    pub(super) thing: String,
    /// A condition in SQL that holds while the thing is missing.
    pub(super) missing: String,
    /// The statements that create it, in order, without the semicolons at their ends.
    pub(super) make: Vec<String>,
}

impl Step {
    pub(super) fn new(
        thing: impl Into<String>,
        missing: impl Into<String>,
        make: Vec<String>,
    ) -> Self {
        Step { thing: thing.into(), missing: missing.into(), make }
    }
}

/// The migration, and the statement that records it.
pub(super) fn migration(migration: &Migration) -> Step {
    let Migration { version, compatible_since, name, sql } = migration;
    let missing = match version {
        1 => "to_regclass('postrider.schema_version') IS NULL".to_owned(),
        _ => format!("NOT EXISTS (SELECT FROM postrider.schema_version WHERE version = {version})"),
    };
    let thing = format!("migrations/{version:04}_{name}.sql");
    if *version < COMPATIBILITY {
        let note = format!(
            "INSERT INTO postrider.schema_version (version, name) VALUES ({version}, '{name}')"
        );
        return Step::new(thing, missing, vec![file(sql), note]);
    }
    let note = format!(
        "INSERT INTO postrider.schema_version (version, name, compatible_since, checksum) \
         VALUES ({version}, '{name}', {compatible_since}, '{}')",
        migration.checksum()
    );
    let mut make = vec![file(sql), note];
    if *version == COMPATIBILITY {
        // Earlier migrations could not record their checksums themselves.
        make.extend(MIGRATIONS.iter().filter(|it| it.version < COMPATIBILITY).map(|earlier| {
            format!(
                "UPDATE postrider.schema_version SET checksum = '{}' WHERE version = {}",
                earlier.checksum(),
                earlier.version
            )
        }));
    }
    Step::new(thing, missing, make)
}

/// The table's schema, which may have to be created first.
pub(super) fn schema(name: &str) -> Step {
    // Not IF NOT EXISTS: it asks for the right to create schemas even if there is nothing to do.
    let quoted = quote_identifier(name);
    let missing = format!("to_regnamespace({}) IS NULL", quote_literal(&quoted));
    Step::new(format!("schema {name}"), missing, vec![format!("CREATE SCHEMA {quoted}")])
}

pub(super) fn table(table: &OutboxTable) -> Step {
    let name = &table.name;
    let missing = format!("to_regclass({}) IS NULL", quote_literal(&name.quoted()));
    let make = file(&outbox_table::statement(table));
    Step::new(format!("table {name}"), missing, vec![make])
}

pub(super) fn publication(wanted: &PostgresConfig) -> Step {
    let name = &wanted.publication;
    let missing =
        format!("NOT EXISTS (SELECT FROM pg_publication WHERE pubname = {})", quote_literal(name));
    let tables: Vec<String> = wanted.tables.iter().map(|table| table.name.quoted()).collect();
    // Without the second option, rows of a partitioned outbox would arrive under the names of its
    // partitions.
    let make = format!(
        "CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert', \
         publish_via_partition_root = true)",
        quote_identifier(name),
        tables.join(", ")
    );
    Step::new(format!("publication {name}"), missing, vec![make])
}

/// Adds a table to a publication that exists. The view knows all ways in which a table can be
/// published: by name, by schema, or as one of all tables.
pub(super) fn publish(publication: &str, table: &TableName) -> Step {
    let missing = format!(
        "NOT EXISTS (SELECT FROM pg_publication_tables \
         WHERE pubname = {} AND schemaname = {} AND tablename = {})",
        quote_literal(publication),
        quote_literal(&table.schema),
        quote_literal(&table.name),
    );
    let (name, table_quoted) = (quote_identifier(publication), table.quoted());
    let make = vec![
        format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"),
        format!("LOCK TABLE {table_quoted} IN SHARE ROW EXCLUSIVE MODE"),
        format!("ALTER PUBLICATION {name} ADD TABLE {table_quoted}"),
    ];
    Step::new(format!("table {table} in publication {publication}"), missing, make)
}

/// One statement that creates the slot and returns where it begins. It must not run in a
/// transaction that has written, which can't create a slot. A condition may follow it.
///
/// Servers from Postgres 17 on can keep it on their standbys, if these are set up for it.
pub(super) fn slot(name: &str, can_fail_over: bool) -> Step {
    let name_literal = quote_literal(name);
    let missing =
        format!("NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = {name_literal})");
    let failover = if can_fail_over { ", failover => true" } else { "" };
    let make = format!(
        "SELECT set_config('{MADE_AT}', lsn::text, false), \
         set_config('{MADE_AFTER}', pg_snapshot_xmin(pg_current_snapshot())::text, false) \
         FROM pg_create_logical_replication_slot({name_literal}, 'pgoutput'{failover})"
    );
    Step::new(format!("slot {name}"), missing, vec![make])
}

/// The setting that holds where this session has created a slot.
const MADE_AT: &str = "postrider.slot_made_at";
/// The setting that holds a transaction number: those with lower numbers had ended before.
const MADE_AFTER: &str = "postrider.slot_made_after";

/// Stores the position of the slot that this session has created. It is a separate statement:
/// Postgres can lose track of the table if a slot is created by the same one. It does nothing for a
/// slot that existed before: a relay of an earlier version may be moving it.
pub(super) fn begin_progress(slot: &str) -> String {
    format!(
        "INSERT INTO postrider.progress (slot, position, done_before) \
         SELECT {}, made.at::pg_lsn, current_setting('{MADE_AFTER}')::xid8 \
         FROM current_setting('{MADE_AT}', true) AS made(at) \
         WHERE made.at <> '' ON CONFLICT (slot) DO NOTHING",
        quote_literal(slot)
    )
}

/// Stores that rows of the tables are to be published before the slot is read. A slot that exists
/// is kept, because only it has events without a table, and rows that were written and deleted
/// since. It was created after the publication, and that is still the same one: otherwise the
/// tables would have lapsed.
pub(super) fn begin_snapshot(wanted: &PostgresConfig) -> String {
    let mark = publication_mark_query(&quote_literal(&wanted.publication));
    format!(
        "INSERT INTO postrider.backfill (slot, kind, keeps_slot, made_for) \
         SELECT w.slot, 'snapshot', r.slot_name IS NOT NULL, \
                CASE WHEN r.slot_name IS NOT NULL THEN ({mark}) END \
           FROM (SELECT {}::text) AS w(slot) \
           LEFT JOIN pg_replication_slots r ON r.slot_name = w.slot \
         ON CONFLICT (slot) DO NOTHING",
        quote_literal(&wanted.slot)
    )
}

/// A condition that holds if rows of the tables are to be published before the slot is read.
pub(super) fn publishing_condition(slot: &str) -> String {
    format!("EXISTS (SELECT FROM postrider.backfill WHERE slot = {})", quote_literal(slot))
}

/// Stores that rows of the tables that are older than the slot are left out.
pub(super) fn skip_existing_rows(wanted: &PostgresConfig) -> String {
    let slot = quote_literal(&wanted.slot);
    let table =
        |table: &OutboxTable| format!("({}::regclass)", quote_literal(&table.name.quoted()));
    let tables: Vec<String> = wanted.tables.iter().map(table).collect();
    format!(
        "INSERT INTO postrider.existing_rows (slot, outbox, is_skipped) \
         SELECT p.slot, t.outbox, true FROM postrider.progress p, (VALUES {}) AS t(outbox) \
         WHERE p.slot = {slot} \
         ON CONFLICT (slot, outbox) DO UPDATE SET is_skipped = true",
        tables.join(", ")
    )
}

/// A condition that holds if progress of the slot is stored. While rows of the tables are being
/// published, the position is 0/0.
pub(super) fn has_progress(slot: &str) -> String {
    format!(
        "EXISTS (SELECT FROM postrider.progress WHERE slot = {} AND position > '0/0')",
        quote_literal(slot)
    )
}

/// The promise that events without a table are published: from then on they may be written. Only
/// for a slot whose progress is stored; otherwise the relay makes the promise when it begins to
/// store progress.
pub(super) fn messages(slot: &str) -> Step {
    let slot_literal = quote_literal(slot);
    let missing = format!(
        "EXISTS (SELECT FROM postrider.progress WHERE slot = {slot_literal} AND position > '0/0') \
         AND NOT EXISTS (SELECT FROM postrider.message_slot WHERE slot = {slot_literal})"
    );
    let thing = format!("events without a table (postrider.emit) for slot {slot}");
    Step::new(thing, missing, vec![promise_statement(&slot_literal)])
}

/// Stores what is promised for the slot from now on; [`settle`] follows.
pub(super) fn coverage(wanted: &PostgresConfig) -> String {
    cover_statement(
        &quote_literal(&wanted.slot),
        &quote_literal(&wanted.publication),
        &oids(wanted),
    )
}

/// Follows [`coverage`], in a transaction of its own.
pub(super) fn settle(wanted: &PostgresConfig) -> String {
    settle_statement(&quote_literal(&wanted.slot))
}

/// A condition that holds if a table is not promised for a slot whose progress is stored.
pub(super) fn uncovered_condition(wanted: &PostgresConfig) -> String {
    let slot = quote_literal(&wanted.slot);
    format!(
        "EXISTS (SELECT FROM postrider.progress p, unnest({}::oid[]) AS t(oid) \
          WHERE p.slot = {slot} AND NOT EXISTS (SELECT FROM postrider.coverage c \
                 WHERE c.slot = p.slot AND c.outbox::oid = t.oid))",
        oids(wanted)
    )
}

/// A condition that holds if a promised table is not the one that has its name now.
pub(super) fn replaced_condition(wanted: &PostgresConfig) -> String {
    let table = |table: &OutboxTable| {
        let TableName { schema, name } = &table.name;
        format!(
            "(c.schema_name = {} AND c.table_name = {} \
              AND c.outbox::oid IS DISTINCT FROM to_regclass({})::oid)",
            quote_literal(schema),
            quote_literal(name),
            quote_literal(&table.name.quoted())
        )
    };
    let tables: Vec<String> = wanted.tables.iter().map(table).collect();
    format!(
        "EXISTS (SELECT FROM postrider.coverage c WHERE c.slot = {} AND ({}))",
        quote_literal(&wanted.slot),
        tables.join(" OR ")
    )
}

/// A condition that holds if a table that is not read is promised for the slot through another
/// publication, and the configured one does not send its rows.
pub(super) fn has_unsent(wanted: &PostgresConfig) -> String {
    let table =
        |table: &OutboxTable| format!("to_regclass({})::oid", quote_literal(&table.name.quoted()));
    let tables: Vec<String> = wanted.tables.iter().map(table).collect();
    format!(
        concat!(
            "EXISTS (SELECT FROM postrider.coverage v WHERE v.slot = {slot} \
                AND NOT v.outbox::oid = ANY(array_remove(ARRAY[{tables}], NULL)) AND ",
            other_way!("{publication}"),
            " IS NOT NULL)"
        ),
        slot = quote_literal(&wanted.slot),
        tables = tables.join(", "),
        publication = quote_literal(&wanted.publication),
    )
}

fn oids(wanted: &PostgresConfig) -> String {
    let table = |table: &OutboxTable| format!("{}::regclass", quote_literal(&table.name.quoted()));
    let tables: Vec<String> = wanted.tables.iter().map(table).collect();
    format!("ARRAY[{}]", tables.join(", "))
}

/// A condition that holds if this table is not promised for the slot, whether or not progress of
/// the slot is stored.
pub(super) fn table_uncovered_condition(slot: &str, table: &TableName) -> String {
    format!(
        "NOT EXISTS (SELECT FROM postrider.coverage \
          WHERE slot = {} AND outbox::oid = to_regclass({})::oid)",
        quote_literal(slot),
        quote_literal(&table.quoted())
    )
}

fn file(sql: &str) -> String {
    sql.trim_end().trim_end_matches(';').to_owned()
}
