//! `postrider recover`: publishes from the tables the rows that may be missing after a slot was
//! lost.

mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use tokio_postgres::Client;

pub(crate) use self::report::{PossiblyMissing, Recovery, Unread};
use super::run::{self, Published};
use super::slot::can_keep;
use super::store::{begin_recovery, give_up_slot, load};
use super::table::{Reading, Table};
use super::{Job, JobTable};
use crate::checks::{self, Finding, SlotState};
use crate::config::{Config, OutboxTable, PostgresConfig};
use crate::engine::{Engine, sink_options};
use crate::ops::{Metrics, Vitals};
use crate::postgres::session_settings::COUNTING;
use crate::postgres::{self, Connected, Server, log_end};
use crate::progress::coverage::{self, doubtful_since};
use crate::progress::{
    DestinationCheck, Gap, Identity, Lapse, Progress, PromiseState, RECOVER, judge, lapses, store,
};
use crate::replication::identity;
use crate::restarts::Restarts;
use crate::rights::{Access, check_access_to};
use crate::session_end::{Fatal, SessionEnd};
use crate::setup::migrate::{self, MigrateError};
use crate::shutdown::Shutdown;
use crate::sink::{Sink, SinkFactory};
use postrider_core::lsn::Lsn;
use postrider_core::row::PresentTable;

/// How long to wait for the brokers before anything is changed.
const DESTINATION_WITHIN: Duration = Duration::from_secs(5);

/// How to recover.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecoverOptions {
    /// Change nothing.
    pub dry_run: bool,
    /// Create a new slot even if the old one has events without a table that nobody has read.
    pub give_up_messages: bool,
}

/// Determines what may be missing, and publishes it unless it is a dry run.
pub(crate) async fn recover<F: SinkFactory>(
    config: Config,
    factory: F,
    mut shutdown: Shutdown,
    options: RecoverOptions,
    report: impl Fn(&Recovery),
) -> Result<Recovery, Fatal> {
    let RecoverOptions { dry_run, .. } = options;
    if !dry_run {
        let migrated = migrate::migrate_without_slot(&config).await;
        migrated.map_err(|error: MigrateError| {
            let fatal = Fatal::new(error.to_string(), error.fix());
            if error.needs_operator() { fatal } else { fatal.passing() }
        })?;
    }
    let mut recovery = match prepare(&config, &factory, options).await {
        Ok(recovery) => recovery,
        Err(stop) => return Err(fatal(stop)),
    };
    report(&recovery);
    if dry_run || (recovery.gap.is_none() && recovery.interrupted_job.is_none()) {
        return Ok(recovery);
    }
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let vitals = Arc::new(Vitals::register(&config.postgres.slot, &mut registry));
    let mut engine = Engine::start(config, &factory, metrics, vitals, None)?;
    let result = publish(&mut engine, &mut shutdown).await;
    engine.stop(&mut shutdown).await;
    let published = result?;
    recovery.is_interrupted = published.is_none();
    recovery.published = Some(published.unwrap_or_default());
    Ok(recovery)
}

/// Does the stored job, and starts again after failures; returns how many rows were published.
/// None: interrupted.
async fn publish<S: Sink>(
    engine: &mut Engine<S>,
    shutdown: &mut Shutdown,
) -> Result<Option<u64>, Fatal> {
    let mut restarts = Restarts::default();
    loop {
        let began = Instant::now();
        let end = run::publish_rows(engine, shutdown).await;
        // As after a session: what the producers have queued would arrive after newer events.
        engine.sink.stop().await;
        let restart = match end {
            Ok(Published::Rows(rows)) => return Ok(Some(rows)),
            Ok(Published::ByAnother) => return Ok(Some(0)),
            Err(SessionEnd::Shutdown | SessionEnd::BackfillFirst) => return Ok(None),
            Err(SessionEnd::Fatal(fatal)) => return Err(fatal),
            Err(SessionEnd::Restart(restart)) => restart,
        };
        let Engine { sink, metrics, vitals, .. } = &*engine;
        let wait = restarts.note(&restart, began.elapsed(), sink, metrics, vitals);
        tokio::select! {
            () = shutdown.draining() => return Ok(None),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Determines what may be missing, and stores the job that publishes it.
async fn prepare(
    whole: &Config,
    factory: &impl SinkFactory,
    options: RecoverOptions,
) -> Result<Recovery, SessionEnd> {
    let config = &whole.postgres;
    let Connected { mut client, guard: _guard, server } =
        postgres::connect(&config.connection).await?;
    checks::check_server(&client).await?;
    if let Some(lacking) = check_access_to(&client, Access::Progress).await? {
        return Err(Finding::from(lacking).into());
    }
    store::begin_session(&client).await?;
    client.batch_execute(COUNTING).await?;
    checks::check_promised(&client, config).await??;
    let present = checks::check_tables_to_read(&client, config).await?;
    let ids: Vec<u32> = present.iter().map(|table| table.id).collect();
    match load(&client, &config.slot, &ids).await? {
        Some(job) => prepare_interrupted(&client, config, &present, &job, options).await,
        None => {
            let diagnosis = diagnose(&client, &server, config).await?;
            prepare_new(&mut client, whole, factory, &present, diagnosis, options).await
        }
    }
}

/// An earlier job was interrupted, and is continued.
async fn prepare_interrupted(
    client: &Client,
    config: &PostgresConfig,
    present: &[PresentTable],
    job: &Job,
    options: RecoverOptions,
) -> Result<Recovery, SessionEnd> {
    let RecoverOptions { dry_run, give_up_messages } = options;
    let since: Vec<Since> =
        job.tables.iter().map(|table| (table.outbox, table.since.clone())).collect();
    let tables = count_all(client, config, present, &since).await?;
    if give_up_messages && !dry_run && job.keeps_slot {
        give_up_slot(client, &config.slot).await?;
    }
    let keeps_slot = job.keeps_slot && !give_up_messages;
    let messages = config.messages.as_ref().map(|_| Unread::with_slot(keeps_slot));
    let interrupted_job = Some(job.kind);
    Ok(Recovery { interrupted_job, tables, keeps_slot, messages, ..Recovery::default() })
}

/// Stores a job for what may be missing.
async fn prepare_new(
    client: &mut Client,
    whole: &Config,
    factory: &impl SinkFactory,
    present: &[PresentTable],
    diagnosis: Diagnosis,
    options: RecoverOptions,
) -> Result<Recovery, SessionEnd> {
    let RecoverOptions { dry_run, give_up_messages } = options;
    let config = &whole.postgres;
    let Diagnosis { gap: Some(gap), slot, here } = diagnosis else {
        return Ok(Recovery::default());
    };
    let ids: Vec<u32> = present.iter().map(|table| table.id).collect();
    let since = match &gap {
        // Transaction numbers of another server mean nothing here, and what was stored with an
        // impossible position may be wrong too.
        Gap::OtherSystem { .. } | Gap::Beyond { .. } => ids.iter().map(|id| (*id, None)).collect(),
        _ => {
            refuse_earlier_tables(client, config).await?;
            doubtful_since(client, &config.slot, &config.publication, &ids).await?
        }
    };
    let tables = count_all(client, config, present, &since).await?;
    let keeps_slot = !give_up_messages && can_keep(client, config, slot).await?;
    let messages = config.messages.as_ref().map(|_| Unread::with_slot(keeps_slot));
    if !dry_run {
        refuse_active(client, &config.slot).await?;
        check_destination(whole, factory, client).await?;
        begin_recovery(client, &config.slot, &here, &since, keeps_slot).await?;
    }
    Ok(Recovery { gap: Some(gap), tables, keeps_slot, messages, ..Recovery::default() })
}

/// A table, and the first of the transactions whose rows may be missing; none: all of them.
type Since = (u32, Option<String>);

/// Counts the rows that may be missing, table by table.
async fn count_all(
    client: &Client,
    config: &PostgresConfig,
    present: &[PresentTable],
    since: &[Since],
) -> Result<Vec<PossiblyMissing>, SessionEnd> {
    let mut counted = Vec::with_capacity(present.len());
    for (number, (table, present)) in config.tables.iter().zip(present).enumerate() {
        let found = Table::look_up(client, number, table, present).await??;
        let of_table = since.iter().find(|(outbox, _)| *outbox == present.id);
        let since = of_table.and_then(|(_, since)| since.clone());
        let wanted = JobTable { outbox: present.id, since, ..JobTable::default() };
        let name = table.name.to_string();
        counted.push(count_possibly_missing(client, &config.slot, name, &found, wanted).await?);
    }
    Ok(counted)
}

/// Counts the rows of a table that may be missing.
async fn count_possibly_missing(
    client: &Client,
    slot: &str,
    table: String,
    found: &Table,
    job: JobTable,
) -> Result<PossiblyMissing, SessionEnd> {
    let order = found.choose_order(client, &job).await?;
    let parked_by = found.parked_by(client, slot).await?;
    let reading = Reading { job: &job, order, seen_before: None, parked_by };
    let rows = found.count(client, &reading).await?.unsigned_abs();
    let left_out = found.count_parked(client, &reading).await?;
    let left_out = left_out.into_iter().map(|(status, rows)| (status, rows.unsigned_abs()));
    Ok(PossiblyMissing { table, rows, since: job.since, order, left_out: left_out.collect() })
}

/// What is wrong with the slot, if anything.
struct Diagnosis {
    gap: Option<Gap>,
    slot: Option<SlotState>,
    here: Identity,
}

async fn diagnose(
    client: &Client,
    server: &Server,
    config: &PostgresConfig,
) -> Result<Diagnosis, SessionEnd> {
    let progress = store::load(client, &config.slot).await?;
    let slot = checks::find_slot(client, config).await?;
    if progress.is_none() && slot.is_none() {
        return Err(SessionEnd::fatal(
            format!("slot \"{}\" does not exist, and nothing is stored about it", config.slot),
            "run `postrider migrate` to create it, or correct postgres.slot; to publish rows that \
             are already in the tables, set postgres.snapshot to initial",
        ));
    }
    let here = identity(server).await?;
    let gap = find_gap(client, config, progress, slot, &here).await?;
    Ok(Diagnosis { gap, slot, here })
}

async fn find_gap(
    client: &Client,
    config: &PostgresConfig,
    progress: Option<Progress>,
    found: Option<SlotState>,
    here: &Identity,
) -> Result<Option<Gap>, SessionEnd> {
    let slot = &config.slot;
    let lost = match found {
        Some(SlotState::Whole) => None,
        Some(SlotState::Lost(by)) => Some(Gap::Lost { slot: slot.clone(), by }),
        None => Some(Gap::Missing { slot: slot.clone() }),
    };
    let Some(progress) = progress else {
        // A relay will start at the slot's position, if it can.
        return match lost {
            None => predates(client, config).await,
            gap => Ok(gap),
        };
    };
    let stands_at = match lost {
        None => checks::confirmed_position(client, slot).await?,
        Some(_) => Lsn::ZERO,
    };
    let has_moved = progress.has_moved;
    let log_end = log_end(client).await?;
    // This comes first: progress that was stored on another server means nothing here.
    if let Err(gap) = judge(slot, &progress, here, stands_at, log_end) {
        return Ok(Some(gap));
    }
    if lost.is_some() {
        return Ok(lost);
    }
    // A server that leaves out rows silently can't be asked whether it would. But if a relay has
    // moved the position, it has read the rows in doubt.
    let is_doubtful = !has_moved || !store::skips_in_silence(client).await?;
    if is_doubtful && let Some(gap) = predates(client, config).await? {
        return Ok(Some(gap));
    }
    let names = config.table_names();
    let promises = coverage::find_promises(client, slot, &config.publication, &names).await?;
    let (slot, lapses) = (slot.clone(), lapses(&promises, false));
    Ok((!lapses.is_empty()).then_some(Gap::Lapse { slot, lapses }))
}

/// A table that was replaced may still have unpublished rows, and they are lost with the slot
/// unless that table is read too.
pub(crate) async fn refuse_earlier_tables(
    client: &Client,
    config: &PostgresConfig,
) -> Result<(), SessionEnd> {
    let PostgresConfig { slot, publication, .. } = config;
    let names = config.table_names();
    for promise in coverage::find_promises(client, slot, publication, &names).await? {
        let PromiseState::Lapsed(Lapse::Replaced { now: Some(now) }) = promise.state else {
            continue;
        };
        let successor = config.tables.iter().find(|table| table.name.to_string() == promise.name);
        let Some(successor) = successor.filter(|_| !names.contains(&now)) else { continue };
        let Some(found) = checks::table::look_up(client, publication, &now).await? else {
            continue;
        };
        let earlier = OutboxTable { name: now.clone(), ..successor.clone() };
        let present = found.judge(config, &earlier, None)?;
        checks::check_readable(client, std::slice::from_ref(&present)).await??;
        let since = doubtful_since(client, slot, publication, &[present.id]).await?;
        let since = since.into_iter().find_map(|(_, since)| since);
        let job = JobTable { outbox: present.id, since, ..JobTable::default() };
        let table = Table::look_up(client, 0, &earlier, &present).await??;
        let rows = count_possibly_missing(client, slot, now.to_string(), &table, job).await?.rows;
        if rows > 0 {
            return Err(SessionEnd::fatal(
                format!(
                    "table {now} was called {} before, and {rows} of its rows may be missing \
                     from Kafka",
                    promise.name
                ),
                format!(
                    "name {now} in postgres.tables too, and run this command again; or, to give \
                     these rows up, drop the table, or delete them from it"
                ),
            ));
        }
    }
    Ok(())
}

/// Runs before anything is changed. If the brokers are unreachable, the sink checks it once they
/// are back.
async fn check_destination(
    config: &Config,
    factory: &impl SinkFactory,
    client: &Client,
) -> Result<(), SessionEnd> {
    let destination = DestinationCheck::new(config);
    destination.check_environment(client).await?;
    let sink = factory.make(sink_options(config, &destination, None));
    let mut sink = sink.map_err(|broken| SessionEnd::Fatal(Fatal::of_sink(&broken)))?;
    Ok(sink.check_destination(DESTINATION_WITHIN).await?)
}

/// Whether the slot still has to read WAL from before the publication was created.
async fn predates(client: &Client, config: &PostgresConfig) -> Result<Option<Gap>, SessionEnd> {
    let PostgresConfig { slot, publication, .. } = config;
    let predates = store::predates_publication(client, slot, publication).await?;
    let (slot, publication) = (slot.clone(), publication.clone());
    Ok(predates.then_some(Gap::Predates { slot, publication }))
}

/// A slot that is in use can't be recreated.
async fn refuse_active(client: &Client, slot: &str) -> Result<(), SessionEnd> {
    let sql = "SELECT active_pid FROM pg_replication_slots \
                WHERE slot_name = $1 AND active_pid IS NOT NULL";
    let Some(row) = client.query_opt(sql, &[&slot]).await? else { return Ok(()) };
    let pid: i32 = row.try_get(0)?;
    Err(SessionEnd::fatal(
        format!("slot \"{slot}\" is in use by process {pid} of the server"),
        "stop the relay and its standby instances, then run recover again",
    ))
}

fn fatal(stop: SessionEnd) -> Fatal {
    match stop {
        SessionEnd::Fatal(fatal) => fatal,
        SessionEnd::Restart(restart) => {
            Fatal::new(restart.text, "make sure that Postgres is up, then run recover again")
                .passing()
        }
        SessionEnd::Shutdown | SessionEnd::BackfillFirst => {
            Fatal::new("the recovery was interrupted", RECOVER)
        }
    }
}
