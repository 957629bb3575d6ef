//! `postrider migrate --print`: the same statements as a script, for people who are not allowed to
//! run `migrate` itself, or do not want to. It does not connect to a server: decisions that
//! `migrate` makes by looking at the database, the script makes when it runs.

use super::session::{ADVISORY_LOCK_TIMEOUT, CAN_LOCK, LOCK};
use super::statements::{self, Step};
use super::{ExistingRows, MigrateError, outbox_columns, outbox_table};
use crate::config::{OutboxTable, PostgresConfig, Snapshot};
use crate::postgres::locks::COMMAND;
use crate::postgres::{CAN_FAIL_OVER, quote_literal, session_settings};
use crate::progress::Gap;
use crate::schema::MIGRATIONS;

const HEAD: &str = "\
-- Creates what `postrider migrate` would create: psql --file THIS DATABASE
-- Run it in the database of the outbox, as a role that is allowed to create these objects
-- (docs/grants.sql). Objects that exist are kept. `postrider migrate` can check the result.

-- Stop at the first error.
\\set ON_ERROR_STOP on
";

const SLOT: &str = "
-- Not in a transaction: one that has written can't create a slot. From here on the server retains
-- the WAL that the relay has not read: start `postrider run`, or drop the slot again.
-- This waits for open transactions to end, including prepared ones. From Postgres 17 on, a promoted
-- standby can continue with the slot.
";

const LATER: &str = "
-- `postrider run` creates the slot, and first publishes the existing rows
-- (postgres.snapshot = initial, or --existing-rows publish).
";

/// The script for this configuration, and for what was decided about existing rows.
pub(crate) fn script(
    wanted: &PostgresConfig,
    existing: Option<ExistingRows>,
) -> Result<String, MigrateError> {
    if existing == Some(ExistingRows::Skip) && wanted.snapshot == Snapshot::Initial {
        return Err(MigrateError::SkipAndSnapshot);
    }
    Ok(write(wanted, existing))
}

fn write(wanted: &PostgresConfig, existing: Option<ExistingRows>) -> String {
    let mut script =
        format!("{HEAD}\n{};\n\nBEGIN;\n", session_settings::COMMAND.replace("; ", ";\n"));
    script.push_str(&take_command_lock());
    script.push_str(&old_slot(wanted));
    for step in transaction(wanted).iter().chain(&existing_rows(wanted, existing)) {
        script.push_str(&guarded(step));
    }
    // Before anybody can write to it, or read what is written.
    let (coverage, settle) = (statements::coverage(wanted), statements::settle(wanted));
    script.push_str(&format!("\n-- What is promised for a slot that exists.\n{coverage};\n"));
    script.push_str(&format!("\nCOMMIT;\n\n{settle};\n"));
    if wanted.snapshot == Snapshot::Initial || existing == Some(ExistingRows::Publish) {
        script.push_str(LATER);
        return script;
    }
    script.push_str(&make_slot(wanted));
    let begin = statements::begin_progress(&wanted.slot);
    script.push_str(&format!(
        "\n-- Where the slot begins, and what is promised for it.\n\
         {begin};\n{coverage};\n{settle};\n"
    ));
    if wanted.messages.is_some() {
        let promise = statements::messages(&wanted.slot).make.join(";\n");
        script.push_str(&format!("\n-- Events without a table may be written now.\n{promise};\n"));
    }
    if existing == Some(ExistingRows::Skip) {
        let skip = statements::skip_existing_rows(wanted);
        script
            .push_str(&format!("\n-- Rows that are older than the slot are left out.\n{skip};\n"));
    }
    script
}

/// The script waits for other commands in the same way as `migrate`.
fn take_command_lock() -> String {
    format!(
        "\n-- One `postrider migrate` at a time, also as a script.\nDO $command_lock$\nBEGIN\n\
         IF {CAN_LOCK} THEN\n{LOCK};\nELSE\nSET LOCAL lock_timeout = '{ADVISORY_LOCK_TIMEOUT}';\n\
         PERFORM pg_advisory_xact_lock({COMMAND});\nSET LOCAL lock_timeout = 0;\nEND IF;\n\
         END\n$command_lock$;\n"
    )
}

/// Creates the slot if it is missing. Which kind of slot the server can create is known only when
/// the script runs. Not in a block: Postgres can lose track of its snapshots if a slot is created
/// inside one.
fn make_slot(wanted: &PostgresConfig) -> String {
    let is_publishing = statements::publishing_condition(&wanted.slot);
    let made = |can_fail_over| {
        let Step { missing, make, .. } = statements::slot(&wanted.slot, can_fail_over);
        format!("{}\nWHERE {missing} AND NOT {is_publishing};\n", make.join(";\n"))
    };
    let (with, without) = (made(true), made(false));
    format!(
        "{SLOT}SELECT {CAN_FAIL_OVER} AS can_fail_over \\gset\n\
         \\if :can_fail_over\n{with}\\else\n{without}\\endif\n"
    )
}

/// What happens to rows that are older than the slot; a warning if nobody has decided it.
fn existing_rows(wanted: &PostgresConfig, existing: Option<ExistingRows>) -> Vec<Step> {
    let slot = statements::slot(&wanted.slot, false);
    let is_publishing = statements::publishing_condition(&wanted.slot);
    match existing {
        Some(ExistingRows::Skip) => Vec::new(),
        Some(ExistingRows::Publish) => {
            let error = MigrateError::SlotRead { slot: wanted.slot.clone() };
            let refusal = Step {
                thing: "Existing rows can't be published first if the slot already exists"
                    .to_owned(),
                missing: format!("NOT ({}) AND NOT {is_publishing}", slot.missing),
                make: vec![raise(&error)],
            };
            let job = Step {
                thing: "Existing rows are published first".to_owned(),
                missing: format!("NOT {is_publishing}"),
                make: vec![statements::begin_snapshot(wanted)],
            };
            vec![refusal, job]
        }
        None if wanted.snapshot == Snapshot::Initial => Vec::new(),
        None => {
            let warning = |table| existing_rows_warning(table, &wanted.slot, &is_publishing);
            wanted.tables.iter().map(warning).collect()
        }
    }
}

/// For a table that the slot does not cover yet, whether or not the slot exists.
fn existing_rows_warning(table: &OutboxTable, slot: &str, is_publishing: &str) -> Step {
    let name = &table.name;
    let (quoted, literal) = (name.quoted(), quote_literal(&name.quoted()));
    let warn = |rows: &str| {
        let message = format!(
            "{rows} older than slot {slot}, or were written before it covered the table, and will \
             not be published"
        );
        let hint = "create the script with --existing-rows publish to publish them first (a slot \
                    that was read has to be recreated for that), or with --existing-rows skip to \
                    leave them out";
        let (message, hint) = (quote_literal(&message), quote_literal(hint));
        format!("RAISE WARNING USING MESSAGE = {message}, HINT = {hint};")
    };
    Step {
        thing: format!("Rows of {name} that slot {slot} will not have"),
        missing: format!(
            "{} AND NOT {is_publishing}",
            statements::table_uncovered_condition(slot, name)
        ),
        // Policies could hide rows.
        make: vec![format!(
            "IF NOT has_table_privilege({literal}, 'SELECT') OR row_security_active({literal}) THEN {} \
             ELSIF EXISTS (SELECT FROM {quoted}) THEN {} END IF",
            warn(&format!("rows of {name}, if it has any, are")),
            warn(&format!("rows of {name} are")),
        )],
    }
}

fn transaction(wanted: &PostgresConfig) -> Vec<Step> {
    let mut steps: Vec<Step> = MIGRATIONS.iter().map(statements::migration).collect();
    steps.extend([missing_slot(wanted), replaced_table(wanted), unsent_table(wanted)]);
    for table in &wanted.tables {
        let step = statements::table(table);
        match outbox_table::can_be_made(table) {
            Ok(()) => {
                steps.extend([statements::schema(&table.name.schema), step]);
                steps.extend(outbox_table::limits(table));
            }
            Err(error) => steps.push(Step { make: vec![raise(&error)], ..step }),
        }
    }
    steps.push(outbox_columns::forget_dropped());
    for table in &wanted.tables {
        steps.extend([
            other_columns(table, &wanted.slot),
            outbox_columns::step(&wanted.slot, table),
        ]);
    }
    steps.push(statements::publication(wanted));
    let publish = |table: &OutboxTable| statements::publish(&wanted.publication, &table.name);
    steps.extend(wanted.tables.iter().map(publish));
    steps
}

/// A warning where `migrate` prints a note.
fn other_columns(table: &OutboxTable, slot: &str) -> Step {
    let message = quote_literal(&outbox_columns::differ_note(slot, table));
    Step {
        thing: format!("Column names of table {} that another relay has stored", table.name),
        missing: outbox_columns::differ_condition(slot, table),
        make: vec![format!("RAISE WARNING USING MESSAGE = {message}")],
    }
}

/// What `migrate` refuses, because nobody could see it afterwards.
fn old_slot(wanted: &PostgresConfig) -> String {
    let error = MigrateError::SlotBeforePublication {
        slot: wanted.slot.clone(),
        publication: wanted.publication.clone(),
    };
    let (slot, publication) =
        (statements::slot(&wanted.slot, false), statements::publication(wanted));
    guarded(&Step {
        thing: "A slot must not be older than its publication".to_owned(),
        missing: format!("NOT ({}) AND {}", slot.missing, publication.missing),
        make: vec![raise(&error)],
    })
}

/// The same for a slot that existed and is gone.
fn missing_slot(wanted: &PostgresConfig) -> Step {
    let gap = Gap::Missing { slot: wanted.slot.clone() };
    let slot = statements::slot(&wanted.slot, false);
    Step {
        thing: "A slot whose progress is stored must not be created again".to_owned(),
        missing: format!("{} AND {}", slot.missing, statements::has_progress(&wanted.slot)),
        make: vec![raise_text(&gap.to_string(), &gap.fix())],
    }
}

/// The same for a table that has replaced another one.
fn replaced_table(wanted: &PostgresConfig) -> Step {
    let lapse = "a table that was promised was dropped, renamed or replaced".to_owned();
    let gap = Gap::Lapse { slot: wanted.slot.clone(), lapses: vec![lapse] };
    Step {
        thing: "A promised table must not be replaced silently".to_owned(),
        missing: statements::replaced_condition(wanted),
        make: vec![raise_text(&gap.to_string(), &gap.fix())],
    }
}

/// The same for tables whose rows the relay would not see.
fn unsent_table(wanted: &PostgresConfig) -> Step {
    let what = format!(
        "tables are promised for slot {} through another publication, but publication {} does not \
         send their rows: they would be skipped unnoticed",
        wanted.slot, wanted.publication
    );
    Step {
        thing: "Promised tables must arrive through the slot's publication".to_owned(),
        missing: statements::has_unsent(wanted),
        make: vec![raise_text(&what, "run `postrider migrate`, which names them and the fix")],
    }
}

fn raise(error: &MigrateError) -> String {
    raise_text(&error.to_string(), &error.fix())
}

fn raise_text(what: &str, fix: &str) -> String {
    let (what, fix) = (quote_literal(what), quote_literal(fix));
    format!("RAISE EXCEPTION USING MESSAGE = {what}, HINT = {fix}")
}

/// Runs the step only if its thing is missing.
fn guarded(step: &Step) -> String {
    let Step { thing, missing, make } = step;
    let make: String = make.iter().map(|statement| format!("{statement};\n")).collect();
    let block = format!("\nBEGIN\nIF {missing} THEN\n{make}END IF;\nEND\n");
    // A name may contain anything, even a line break or what looks like the end of the block.
    let thing = thing.replace(char::is_control, " ");
    let tag = dollar_tag(&block);
    format!("\n-- {thing}\nDO {tag}{block}{tag};\n")
}

fn dollar_tag(block: &str) -> String {
    let mut tag = "$postrider$".to_owned();
    while block.contains(&tag) {
        tag.insert(1, '_');
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_where_it_should_whatever_names_it_holds() {
        let step = Step {
            thing: "table \"a\nb\"".to_owned(),
            missing: "true".to_owned(),
            make: vec!["CREATE TABLE \"$postrider$\" ()".to_owned(), "SELECT 1".to_owned()],
        };
        let expect = "\n-- table \"a b\"\nDO $_postrider$\nBEGIN\nIF true THEN\n\
            CREATE TABLE \"$postrider$\" ();\nSELECT 1;\nEND IF;\nEND\n$_postrider$;\n";
        assert_eq!(guarded(&step), expect);
    }
}
