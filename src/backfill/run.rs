//! Publishes rows that are already in the tables; the relay streams once that is done (ADR 20).

use std::time::{Duration, Instant};

use postrider_core::ack::AckTracker;
use postrider_core::delivery::Obstacle;

use super::publish::{BackfillLoop, RowCount, TableEnd};
use super::reader::{PREPARING, SnapshotReader};
use super::store::{Finish, FinishOutcome};
use crate::config::PostgresConfig;
use crate::engine::{Engine, Lent};
use crate::ops::State;
use crate::session_end::{RestartReason, SessionEnd};
use crate::shutdown::Shutdown;
use crate::sink::Sink;

/// How often to check, while waiting for Postgres, whether a broker can be reached.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who has published the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// This instance, and how many.
    Rows(u64),
    /// Another instance, meanwhile.
    ByAnother,
}

/// Does the stored job: publishes rows of the tables. After that, the slot can be read.
pub(crate) async fn publish_rows<S: Sink>(
    engine: &mut Engine<S>,
    shutdown: &mut Shutdown,
) -> Result<Published, SessionEnd> {
    let reader = tokio::select! {
        biased;
        () = shutdown.draining() => return Err(SessionEnd::Shutdown),
        reader = prepare(engine) => reader?,
    };
    let Some(mut reader) = reader else { return Ok(Published::ByAnother) };
    engine.sink.restart().await?;
    let kind = reader.job.kind.name();
    tracing::info!(kind, slot = engine.config.postgres.slot, at = %reader.starts_at,
        "publishing rows that are in the tables");
    let began = Instant::now();
    let rows = read_all(engine, &mut reader, shutdown).await?;
    finish(&engine.config.postgres, &mut reader).await?;
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(kind, rows, seconds, "all rows are published; later events are in the slot");
    Ok(Published::Rows(rows))
}

/// None: another instance has published the rows. Creating a slot waits for open transactions;
/// meanwhile a relay that can't reach a broker reports it.
async fn prepare<S: Sink>(engine: &mut Engine<S>) -> Result<Option<SnapshotReader>, SessionEnd> {
    let Engine { config, destination, vitals, sink, instance, .. } = engine;
    let preparing = SnapshotReader::prepare(&config.postgres, destination, vitals, instance);
    tokio::pin!(preparing);
    let mut reports = Vec::new();
    loop {
        tokio::select! {
            biased;
            reader = &mut preparing => return reader,
            () = sink.receive(&mut reports) => reports.clear(),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        // Before the lease is taken, another instance may be doing the job.
        let is_ours = matches!(vitals.state(), State::Snapshotting | State::BlockedOnBroker);
        match sink.obstacle() {
            Some(Obstacle { text, certain: true }) if is_ours => {
                vitals.set_state(State::BlockedOnBroker, Some(text));
            }
            _ if is_ours => vitals.set_state(State::Snapshotting, Some(PREPARING.to_owned())),
            _ => {}
        }
    }
}

/// Publishes the rows of all tables; returns how many.
async fn read_all<S: Sink>(
    engine: &mut Engine<S>,
    reader: &mut SnapshotReader,
    shutdown: &mut Shutdown,
) -> Result<u64, SessionEnd> {
    let acks = AckTracker::starting_at(RowCount::ZERO);
    let Lent { config, vitals, out } =
        engine.lend(&reader.server, &reader.here, acks, None).await?;
    let grace = config.relay.shutdown_timeout;
    let position = (reader.starts_at, reader.attempt.change_lsn());
    let mut backfill = BackfillLoop::new(out, vitals, position, grace);
    for index in 0..reader.tables.len() {
        let Some((name, _, job)) = reader.table(index) else { break };
        let estimate = reader.estimate(index).await?;
        let doing = format!("{name}: determining the order of its rows");
        // This can take long for a large table without useful ids.
        let (rows, order) = tokio::select! {
            biased;
            () = shutdown.draining() => return Err(SessionEnd::Shutdown),
            read = backfill.beside(&doing, reader.read(index, &config.postgres)) => read?,
        };
        backfill.begin_table(name, job.rows, estimate, order.is_unique());
        let end = backfill.publish(reader, index, rows, shutdown).await?;
        if end == TableEnd::StopRequested {
            return Err(SessionEnd::Shutdown);
        }
    }
    Ok(backfill.rows())
}

async fn finish(config: &PostgresConfig, reader: &mut SnapshotReader) -> Result<(), SessionEnd> {
    let end = Finish {
        here: &reader.here,
        starts_at: reader.starts_at,
        seen_before: &reader.seen_before,
        publication: &config.publication,
        tables: &reader.job.tables,
        names: &config.table_names(),
        traces: &reader.traces,
    };
    match reader.attempt.finish(&mut reader.control, &end).await? {
        FinishOutcome::Done => Ok(()),
        FinishOutcome::Overtaken => Err(overtaken()),
        FinishOutcome::Lapsed => Err(lapsed()),
    }
}

/// The next attempt reads again what was written since the first one began.
pub(super) fn lapsed() -> SessionEnd {
    SessionEnd::restart(
        RestartReason::BackfillLapsed,
        "a table was replaced, or was out of the publication, while its rows were being published; \
         reading again what was written since the first attempt began",
    )
}

/// Another instance has taken over the job, and continues it.
pub(super) fn overtaken() -> SessionEnd {
    SessionEnd::restart(
        RestartReason::BackfillElsewhere,
        "another instance has begun to publish the rows of the tables",
    )
}
