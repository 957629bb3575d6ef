//! What is needed to read the tables: a new slot with its snapshot, and connections.

use tokio_postgres::Client;

use super::lease::Lease;
use super::order::Order;
use super::recover::refuse_earlier_tables;
use super::rows::Rows;
use super::run::{lapsed, overtaken};
use super::slot;
use super::store::{self, Attempt};
use super::table::{Reading, Table};
use super::{Job, JobTable};
use crate::checks;
use crate::config::PostgresConfig;
use crate::ops::{State, Vitals};
use crate::parking::renames;
use crate::postgres::session_settings::READING;
use crate::postgres::{self, Connected, ConnectionGuard, Server};
use crate::progress::{self, DestinationCheck, Identity, Trace, are_same, traces};
use crate::replication::identity;
use crate::session_end::SessionEnd;
use postrider_core::lsn::Lsn;

/// What is reported before the first row is read.
pub(crate) const PREPARING: &str = "creating the slot, and waiting for open transactions to end";

/// An attempt to publish the rows of the tables, with the connections that it reads them through.
pub(crate) struct SnapshotReader {
    /// For storing progress meanwhile.
    pub(crate) control: Client,
    pub(crate) control_guard: ConnectionGuard,
    /// In the transaction of the snapshot.
    pub(crate) reader: Client,
    _reader_guard: ConnectionGuard,
    pub(crate) server: Server,
    pub(crate) here: Identity,
    /// Where the slot begins.
    pub(crate) starts_at: Lsn,
    /// Transactions before this one had ended when the snapshot was taken.
    pub(crate) seen_before: String,
    pub(crate) attempt: Attempt,
    _lease: Lease,
    /// As it was stored when this attempt began; the progress of its tables is kept up to date.
    pub(crate) job: Job,
    pub(crate) tables: Vec<(String, Table)>,
    /// The entries of the tables in the catalogs before the slot was created.
    pub(crate) traces: Vec<Trace>,
}

impl SnapshotReader {
    pub(crate) async fn prepare(
        config: &PostgresConfig,
        destination: &DestinationCheck,
        vitals: &Vitals,
        holder: &str,
    ) -> Result<Option<Self>, SessionEnd> {
        let Connected { client: mut control, guard: control_guard, server } =
            postgres::connect(&config.connection).await?;
        checks::check_server(&control).await?;
        progress::store::begin_session(&control).await?;
        let Some((mut attempt, lease)) =
            Lease::take(&control, &server, &config.slot, holder).await?
        else {
            return Ok(None);
        };
        vitals.set_state(State::Snapshotting, Some(PREPARING.to_owned()));
        store::take_over(&mut control, &config.slot, &identity(&server).await?).await?;
        let Some((job, tables, traces)) = find_job(&control, config).await? else {
            return Ok(None);
        };
        attempt.count(&control).await?.ok_or_else(overtaken)?;
        destination.check_environment(&control).await?;
        checks::check_promised(&control, config).await??;
        let slot = slot::keep_or_make(&control, &server, config, &job, &attempt).await?;
        let (reader, reader_guard) = postgres::connect_server(&server).await?;
        let encoding = checks::client_encoding(&control).await?;
        let seen_before = enter(&reader, slot.snapshot(), encoding).await?;
        // Later attempts may leave out only rows that the first one saw.
        attempt.note_seen(&control, &seen_before).await?.ok_or_else(overtaken)?;
        Ok(Some(SnapshotReader {
            control,
            control_guard,
            reader,
            _reader_guard: reader_guard,
            server,
            here: slot.here().clone(),
            starts_at: slot.starts_at(),
            seen_before,
            attempt,
            _lease: lease,
            job,
            tables,
            traces,
        }))
    }

    /// The name of a table, the table, and its part of the job.
    pub(crate) fn table(&self, number: usize) -> Option<(String, &Table, JobTable)> {
        let (name, table) = self.tables.get(number)?;
        Some((name.clone(), table, self.job.tables.get(number)?.clone()))
    }

    /// Asks for the rows of a table that are to be published.
    pub(crate) async fn read(
        &mut self,
        number: usize,
        config: &PostgresConfig,
    ) -> Result<(Rows, Order), SessionEnd> {
        let PostgresConfig { slot, publication, .. } = config;
        let (Some((name, table)), Some(job)) =
            (self.tables.get(number), self.job.tables.get_mut(number))
        else {
            return Err(overtaken());
        };
        let reader = &self.reader;
        let order = table.choose_order(reader, job).await?;
        job.resume(table.order_name(order), table.leaves(reader).await?);
        let parked_by = table.parked_by(reader, slot).await?;
        let seen_before = self.job.seen_before.as_deref();
        let reading = Reading { job, order, seen_before, parked_by };
        let left_out = table.count_parked(reader, &reading).await?;
        tracing::info!(table = name, order = %order, "reading rows of a table");
        for (status, rows) in left_out {
            tracing::info!(
                table = name,
                status = status.label(),
                rows,
                "rows are left out: their events are in postrider.undelivered"
            );
        }
        let rows = Rows::ask(reader, table, &reading).await;
        let rows = rows.map_err(|error| SessionEnd::reading_rows(name, error))?;
        // From now on the table is locked, and keeps its name.
        let now = traces(&self.control, publication, &config.table_names()).await?;
        if are_same(&self.traces, &now) { Ok((rows, order)) } else { Err(lapsed()) }
    }

    /// About how many rows the table has.
    pub(crate) async fn estimate(&self, number: usize) -> Result<i64, SessionEnd> {
        const SQL: &str = "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM pg_class c \
             WHERE c.relkind = 'r' AND (c.oid = $1 OR c.oid IN ( \
                   SELECT relid FROM pg_partition_tree($1::oid::regclass)))";
        let Some((_, table)) = self.tables.get(number) else { return Ok(0) };
        Ok(self.control.query_one(SQL, &[&table.id]).await?.try_get(0)?)
    }

    /// Stores how far a table is published.
    pub(crate) async fn save(
        &mut self,
        number: usize,
        reached: Option<i64>,
        rows: i64,
        is_done: bool,
    ) -> Result<(), SessionEnd> {
        let Some(table) = self.job.tables.get_mut(number) else { return Ok(()) };
        // A table that was done before this attempt stays done: only newer rows were read.
        let is_done = is_done || table.is_done;
        let reached = reached.max(table.reached);
        *table = JobTable { reached, rows, is_done, ..table.clone() };
        if self.attempt.save(&self.control, table).await? { Ok(()) } else { Err(overtaken()) }
    }
}

/// A job, its tables with their names, and their entries in the catalogs.
type FoundJob = (Job, Vec<(String, Table)>, Vec<Trace>);

/// None: another instance has done the job.
async fn find_job(
    client: &Client,
    config: &PostgresConfig,
) -> Result<Option<FoundJob>, SessionEnd> {
    let slot = &config.slot;
    let present = checks::check_tables_to_read(client, config).await?;
    let traces = traces(client, &config.publication, &config.table_names()).await?;
    if !traces.iter().map(|trace| trace.outbox).eq(present.iter().map(|table| table.id)) {
        return Err(lapsed());
    }
    let ids: Vec<u32> = present.iter().map(|table| table.id).collect();
    if !store::is_migrated(client).await? {
        let text = "schema postrider is older than this postrider";
        return Err(SessionEnd::fatal(text, "run `postrider migrate`"));
    }
    refuse_earlier_tables(client, config).await?;
    let Some(job) = store::load(client, slot, &ids).await? else {
        // Another instance has published the rows meanwhile.
        return Ok(None);
    };
    renames::follow(client, config).await?;
    // The cleaners of other slots wait for this one from now on.
    progress::store::adopt(client, slot, Lsn::ZERO).await?;
    progress::coverage::cover(client, slot, &config.publication, &ids).await?;
    let mut tables = Vec::with_capacity(present.len());
    for (number, (table, present)) in config.tables.iter().zip(&present).enumerate() {
        let found = Table::look_up(client, number, table, present).await?;
        tables.push((table.name.to_string(), found?));
    }
    Ok(Some((job, tables, traces)))
}

/// Begins a transaction that sees what the snapshot sees, or the present state if there is no
/// snapshot.
async fn enter(
    client: &Client,
    snapshot: Option<&str>,
    encoding: &str,
) -> Result<String, SessionEnd> {
    let snapshot = snapshot.map(|it| it.replace('\'', ""));
    let snapshot = snapshot.map(|it| format!("SET TRANSACTION SNAPSHOT '{it}'; "));
    let snapshot = snapshot.unwrap_or_default();
    let sql = format!("{READING}; {snapshot}SET LOCAL client_encoding = '{encoding}'");
    client.batch_execute(&sql).await?;
    let sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}
