//! `postrider migrate`: the schema `postrider`, the outbox tables, the publication, the slot. In
//! this order, because each needs the one before.
//!
//! The publication must exist before the slot: pgoutput looks it up in the catalogs *as of the WAL
//! record it decodes*, and fails on records from before its creation. For the same reason a table
//! joins a publication only under a lock that waits for its writers: otherwise rows that a
//! transaction wrote before would never arrive, although it commits afterwards.

mod error;
mod existing;
mod outbox_columns;
mod outbox_table;
mod preflight;
mod print;
mod privileges;
mod report;
mod schema;
mod session;
mod statements;
mod withdraw;

use tokio_postgres::{Client, Transaction};

pub(crate) use error::MigrateError;
use existing::Count;
pub(crate) use existing::ExistingRows;
pub(crate) use print::script;
pub(crate) use privileges::ownership;
pub(crate) use report::{Change, Report};
pub(crate) use session::{CommandLockError, begin as begin_session, lock};
pub(crate) use withdraw::unpublish;
pub(crate) use withdraw::withdraw;

use crate::checks::Finding;
use crate::config::{Config, PostgresConfig, Snapshot};
use crate::postgres::{self, Connected, Server, can_fail_over, log_while_waiting};
use crate::progress::{Gap, Unsent, coverage, lapses};
use crate::rights::has_rights;
use preflight::preflight;
use schema::{check_version, own_schema, schema_version};
use session::CommandLock;
use statements::Step;

/// Creates what is missing. Running it again changes nothing; several at once wait for each other.
/// `existing`: what happens to rows that are older than the slot, if that was decided.
pub(crate) async fn migrate(
    config: &Config,
    existing: Option<ExistingRows>,
) -> Result<Report, MigrateError> {
    if existing == Some(ExistingRows::Skip) && config.postgres.snapshot == Snapshot::Initial {
        return Err(MigrateError::SkipAndSnapshot);
    }
    run(config, Scope::All, existing).await
}

/// Creates what is missing, except for the slot, which is lost or will be created later. A schema
/// of another version stays as it is, and is refused unless this program can work with it.
pub(crate) async fn migrate_without_slot(config: &Config) -> Result<Report, MigrateError> {
    run(config, Scope::WithoutSlot, None).await
}

/// What to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    WithoutSlot,
}

async fn run(
    config: &Config,
    scope: Scope,
    existing: Option<ExistingRows>,
) -> Result<Report, MigrateError> {
    let Connected { mut client, guard: mut connection, server } =
        postgres::connect(&config.postgres.connection).await?;
    match steps(&mut client, &server, &config.postgres, scope, existing).await {
        Err(MigrateError::Statement(error)) if client.is_closed() => {
            // The client only knows that the connection is closed; its task knows why.
            Err(error.because(connection.ended().await.as_ref()).into())
        }
        result => result,
    }
}

async fn steps(
    client: &mut Client,
    server: &Server,
    wanted: &PostgresConfig,
    scope: Scope,
    choice: Option<ExistingRows>,
) -> Result<Report, MigrateError> {
    let mut report = Report::new(&wanted.tables);
    begin_session(client).await.map_err(MigrateError::of_command_lock)?;
    let command_lock =
        CommandLock::take(client, server).await.map_err(MigrateError::of_command_lock)?;
    let found = preflight(client, wanted, scope).await?;
    privileges::check(client, server, wanted, scope, &found).await?;
    match scope {
        Scope::WithoutSlot if schema_version(client).await? > 0 => check_version(client).await?,
        _ => own_schema(client, &mut report).await?,
    }
    // By now there is a table to lock.
    let _command_lock = match command_lock {
        Some(command_lock) => Some(command_lock),
        None => CommandLock::take(client, server).await.map_err(MigrateError::of_command_lock)?,
    };
    if scope == Scope::All {
        refuse_lapses(client, wanted).await?;
    }
    let counts = if scope == Scope::WithoutSlot || wanted.snapshot == Snapshot::Initial {
        Vec::new()
    } else {
        existing::count(client, wanted).await?
    };
    tables_and_publication(client, wanted, scope, (&counts, choice), &mut report).await?;
    if scope == Scope::WithoutSlot {
        return Ok(report);
    }
    if choice == Some(ExistingRows::Publish) {
        existing::begin_publishing(client, wanted, found.slot).await?;
    }
    let slot = slot(client, wanted, &mut report).await?;
    if slot == Change::Created {
        existing::store(client, wanted, &counts, choice).await?;
    }
    promise(client, wanted).await?;
    let failed =
        |error| MigrateError::statement("store since when the tables are promised", &error);
    if has_right(client, "coverage", "UPDATE").await? {
        client.batch_execute(&statements::settle(wanted)).await.map_err(failed)?;
    }
    promise_messages(client, wanted, &mut report).await?;
    if matches!(slot, Change::Created | Change::Found) {
        report.notes.extend(notes(client, wanted, counts, choice).await?);
    }
    Ok(report)
}

/// Notes about rows that the slot will not have.
async fn notes(
    client: &Client,
    wanted: &PostgresConfig,
    counts: Vec<Count>,
    choice: Option<ExistingRows>,
) -> Result<Vec<String>, MigrateError> {
    let mut undecided = existing::undecided(client, wanted, choice).await?;
    // Nothing can be stored about a slot without progress, or by a role that is not allowed to.
    if undecided.is_empty() && choice != Some(ExistingRows::Skip) {
        undecided = counts;
    }
    if undecided.is_empty() {
        return Ok(Vec::new());
    }
    let can_publish = existing::can_publish(client, wanted).await?;
    let note = |count| existing::note(&wanted.slot, count, can_publish);
    Ok(undecided.iter().map(note).collect())
}

/// Emitted events are in the slot by now, and will be published.
async fn promise_messages(
    client: &Client,
    wanted: &PostgresConfig,
    report: &mut Report,
) -> Result<(), MigrateError> {
    let step = statements::messages(&wanted.slot);
    if wanted.messages.is_some() && make_if_missing(client, &step).await? {
        report.note(Change::Created, step.thing);
    }
    Ok(())
}

/// A promised table that has lapsed must not be promised again as if nothing had happened: rows
/// that were written in between are in no slot. Nor can a slot promise tables that do not all
/// arrive through one publication.
async fn refuse_lapses(client: &Client, wanted: &PostgresConfig) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("read what is promised", &error);
    if !has_right(client, "coverage", "SELECT").await? {
        return Ok(());
    }
    let (slot, names) = (wanted.slot.as_str(), wanted.table_names());
    let looking = coverage::find_promises(client, slot, &wanted.publication, &names).await;
    let promises = looking.map_err(failed)?;
    if let Some(unsent) = Unsent::find(slot, &wanted.publication, &promises) {
        return Err(Finding::from(unsent).into());
    }
    let lapses = lapses(&promises, false);
    if lapses.is_empty() {
        Ok(())
    } else {
        Err(Finding::from(Gap::Lapse { slot: slot.to_owned(), lapses }).into())
    }
}

/// Promises the tables for the slot, if it has progress. If nothing is new, the role need not have
/// the right to.
async fn promise(client: &Client, wanted: &PostgresConfig) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("store what is promised for the slot", &error);
    if !has_right(client, "coverage", "SELECT").await?
        || !has_right(client, "progress", "SELECT").await?
    {
        return Ok(());
    }
    let sql = format!("SELECT {}", statements::uncovered_condition(wanted));
    if client.query_one(&sql, &[]).await.map_err(failed)?.get(0) {
        client.batch_execute(&statements::coverage(wanted)).await.map_err(failed)?;
    }
    Ok(())
}

/// Whether the role has this right on one of postrider's own tables.
async fn has_right(client: &Client, table: &str, right: &str) -> Result<bool, MigrateError> {
    let failed = |error| MigrateError::statement("show the rights of the role", &error);
    Ok(has_rights(client, table, &[right]).await.map_err(failed)? == Some(true))
}

/// One transaction: an outbox must not be visible, and written to, before it is published.
async fn tables_and_publication(
    client: &mut Client,
    wanted: &PostgresConfig,
    scope: Scope,
    existing: (&[Count], Option<ExistingRows>),
    report: &mut Report,
) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::statement("run a transaction", &error);
    let transaction = client.transaction().await.map_err(failed)?;
    for table in &wanted.tables {
        let step = statements::table(table);
        let change = if is_missing(transaction.client(), &step).await? {
            make_if_missing(transaction.client(), &statements::schema(&table.name.schema)).await?;
            make(transaction.client(), &step).await?;
            Change::Created
        } else {
            outbox_table::add_limits(transaction.client(), table).await?
        };
        report.note(change, step.thing);
    }
    outbox_columns::store(transaction.client(), wanted, scope, report).await?;
    let change = publish(&transaction, wanted).await?;
    if scope == Scope::All {
        let (counts, choice) = existing;
        existing::store(transaction.client(), wanted, counts, choice).await?;
        // In the same transaction as the publication: no relay reads a row of the table before it
        // can see the promise.
        promise(transaction.client(), wanted).await?;
    }
    transaction.commit().await.map_err(failed)?;
    report.note(change, format!("publication {}", wanted.publication));
    Ok(())
}

async fn publish(
    transaction: &Transaction<'_>,
    wanted: &PostgresConfig,
) -> Result<Change, MigrateError> {
    let client = transaction.client();
    if make_if_missing(client, &statements::publication(wanted)).await? {
        return Ok(Change::Created);
    }
    let mut change = Change::Found;
    for table in &wanted.tables {
        if make_if_missing(client, &statements::publish(&wanted.publication, &table.name)).await? {
            change = Change::Updated;
        }
    }
    Ok(change)
}

async fn slot(
    client: &Client,
    wanted: &PostgresConfig,
    report: &mut Report,
) -> Result<Change, MigrateError> {
    let name = &wanted.slot;
    let failed = |error| MigrateError::statement("show its version", &error);
    let step = statements::slot(name, can_fail_over(client).await.map_err(failed)?);
    let is_there = !is_missing(client, &step).await?;
    let is_publishing = existing::is_publishing(client, name).await?;
    if is_there && !is_publishing {
        report.note(Change::Found, step.thing);
        return Ok(Change::Found);
    }
    if is_there {
        let when = "read by `postrider run` once it has published the existing rows";
        report.note(Change::Found, format!("{}: {when}", step.thing));
        return Ok(Change::Later);
    }
    if is_publishing || wanted.snapshot == Snapshot::Initial {
        let when = "created by `postrider run`, which first publishes the existing rows";
        report.note(Change::Later, format!("{}: {when}", step.thing));
        return Ok(Change::Later);
    }
    for statement in &step.make {
        let created = client.query_one(statement, &[]);
        let why = "waiting for transactions to end that began before the slot \
                   (see pg_stat_activity, column xact_start, and pg_prepared_xacts)";
        let failed = |error| MigrateError::statement(format!("create the {}", step.thing), &error);
        let row = log_while_waiting(created, why).await.map_err(failed)?;
        report.note(Change::Created, format!("{} at {}", step.thing, row.get::<_, String>(0)));
    }
    let failed = |error| MigrateError::statement("store where the slot begins", &error);
    client.batch_execute(&statements::begin_progress(name)).await.map_err(failed)?;
    Ok(Change::Created)
}

async fn is_missing(client: &Client, step: &Step) -> Result<bool, MigrateError> {
    let failed = |error| MigrateError::statement(format!("look for {}", step.thing), &error);
    let row = client.query_one(&format!("SELECT {}", step.missing), &[]).await.map_err(failed)?;
    Ok(row.get(0))
}

/// True if it was missing.
async fn make_if_missing(client: &Client, step: &Step) -> Result<bool, MigrateError> {
    let missing = is_missing(client, step).await?;
    if missing {
        make(client, step).await?;
    }
    Ok(missing)
}

async fn make(client: &Client, step: &Step) -> Result<(), MigrateError> {
    for statement in &step.make {
        let what = if statement.contains('\n') {
            format!("run the statements for {}", step.thing)
        } else {
            format!("run {statement}")
        };
        let failed = |error| MigrateError::statement(what, &error);
        client.batch_execute(statement).await.map_err(failed)?;
    }
    Ok(())
}
