//! What is to be replayed next, and the progress so far. Belongs to the connection whose turn it
//! is.

use std::collections::{HashMap, VecDeque};

use tokio_postgres::Client;

use super::batch::PublishedBatch;
use super::pace::Pace;
use super::summary::Summary;
use super::{BATCH_BYTES, BATCH_EVENTS, BROKER_FAILURES_MAX, LOOK_AHEAD, MESSAGE_TIMEOUT, Request};
use crate::config::Config;
use crate::parking::dead::CommandError;
use crate::parking::filter::Filter;
use crate::parking::store::{self, DeadPosition};
use crate::progress::DestinationCheck;
use crate::registry::{SchemaSink, SchemaSinks};
use crate::shutdown::{Phase, Shutdown};
use crate::sink::{Sink, SinkFactory, SinkOptions};

pub(super) struct ReplayQueue<'a, S> {
    slot: &'a str,
    filter: &'a Filter,
    reader: &'a Client,
    on_progress: &'a mut dyn FnMut(&Summary),
    pub(super) sink: SchemaSink<S>,
    is_sink_ready: bool,
    /// Keys of the events of the last batch, which are perhaps not marked yet, by row id.
    pub(super) published_unmarked: HashMap<i64, String>,
    /// How often the connection to the brokers has failed in a row.
    broker_failures: usize,
    /// Events parked after this one are left to the next replay.
    newest_id: i64,
    last_found: DeadPosition,
    /// How many positions can still be looked up.
    left_to_find: usize,
    positions: VecDeque<DeadPosition>,
    pace: Pace,
    pub(super) summary: Summary,
}

impl<'a, S: Sink> ReplayQueue<'a, S> {
    pub(super) async fn open<F: SinkFactory<Sink = S>>(
        config: &'a Config,
        factory: &F,
        request: &'a Request,
        reader: &'a Client,
        on_progress: &'a mut dyn FnMut(&Summary),
    ) -> Result<Self, CommandError> {
        let failed = |error| CommandError::statement("count events", &error);
        let (slot, filter) = (&config.postgres.slot, &request.filter);
        let newest_id = store::newest_id(reader).await.map_err(failed)?;
        let counts = store::dead_counts(reader, slot, filter, newest_id).await.map_err(failed)?;
        let summary = Summary::expecting(&counts, filter);
        on_progress(&summary);
        Ok(ReplayQueue {
            slot,
            filter,
            reader,
            on_progress,
            sink: SchemaSinks::new(factory.clone(), config)
                .make(sink_options(config))
                .map_err(CommandError::Sink)?,
            is_sink_ready: false,
            published_unmarked: HashMap::new(),
            broker_failures: 0,
            newest_id,
            last_found: DeadPosition::START,
            left_to_find: usize::try_from(filter.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX),
            positions: VecDeque::new(),
            pace: Pace::new(request.rate),
            summary,
        })
    }

    /// The next batch, when it is time for it. Empty: there is none, or continuing would be
    /// pointless.
    pub(super) async fn next(
        &mut self,
        stop: &mut Shutdown,
    ) -> Result<Vec<DeadPosition>, CommandError> {
        let is_finished =
            self.summary.connection_error.is_some() || stop.phase() >= Phase::Draining;
        if is_finished || !self.look_ahead().await? {
            return Ok(Vec::new());
        }
        tokio::select! {
            biased;
            () = stop.draining() => return Ok(Vec::new()),
            () = self.pace.wait() => {}
        }
        if !self.is_sink_ready {
            self.sink.restart().await.map_err(CommandError::Sink)?;
            self.is_sink_ready = true;
        }
        Ok(self.take_batch())
    }

    /// Whether there is anything left to try.
    async fn look_ahead(&mut self) -> Result<bool, CommandError> {
        let failed = |error| CommandError::statement("find dead events", &error);
        while self.positions.is_empty() && self.left_to_find > 0 {
            let (client, filter) = (self.reader, self.filter);
            let limit = LOOK_AHEAD.min(self.left_to_find);
            let found = store::dead_positions(
                client,
                self.slot,
                filter,
                self.newest_id,
                self.last_found,
                limit,
            );
            let found = found.await.map_err(failed)?;
            let Some(last) = found.last() else { return Ok(false) };
            self.last_found = *last;
            self.left_to_find -= found.len().min(self.left_to_find);
            self.positions.extend(found.into_iter().filter(|position| !position.is_fragment));
        }
        Ok(!self.positions.is_empty())
    }

    fn take_batch(&mut self) -> Vec<DeadPosition> {
        let events_max = self.pace.batch_max(BATCH_EVENTS);
        let mut next: Vec<DeadPosition> = Vec::new();
        let mut bytes = 0_usize;
        while let Some(position) = self.positions.front() {
            bytes = bytes.saturating_add(position.value_bytes);
            if !next.is_empty() && (bytes > BATCH_BYTES || next.len() >= events_max) {
                break;
            }
            next.extend(self.positions.pop_front());
        }
        next
    }

    /// Adds up the results of a batch, which is about to be marked, and decides what to do about a
    /// connection error.
    pub(super) fn add_results(
        &mut self,
        positions: &[DeadPosition],
        published: &PublishedBatch,
        phase: Phase,
    ) {
        let (delivered, failed) = (published.delivered().len(), published.failed());
        let tried = delivered + failed.len();
        let not_tried = published.not_tried();
        self.summary.replayed += delivered as u64;
        self.summary.held += published.held as u64;
        self.summary.unconfirmed += published.unconfirmed as u64;
        self.summary.unknown += published.unknown as u64;
        self.summary.busy += published.busy as u64;
        failed.iter().for_each(|it| self.summary.add_failure(&it.row.topic, it.refusal));
        self.published_unmarked.clone_from(&published.keys);
        self.pace.sent(tried);
        self.is_sink_ready = published.is_sink_ready;
        match &published.interrupted_by {
            // Asked to stop: rows that were not tried are left.
            _ if phase >= Phase::Draining => {}
            // Only an earlier failure can have held them back.
            None => {
                self.broker_failures = 0;
                self.summary.held += not_tried.len() as u64;
            }
            // They are tried once more, before all others.
            Some(broken) => {
                self.broker_failures = if tried > 0 { 1 } else { self.broker_failures + 1 };
                let again =
                    positions.iter().rev().filter(|position| not_tried.contains(&position.id));
                again.for_each(|position| self.positions.push_front(*position));
                if self.broker_failures < BROKER_FAILURES_MAX {
                    tracing::warn!("{broken}; retrying");
                } else {
                    self.summary.connection_error = Some(broken.text.clone());
                }
            }
        }
        (self.on_progress)(&self.summary);
    }
}

fn sink_options(config: &Config) -> SinkOptions {
    SinkOptions {
        in_flight_events_max: BATCH_EVENTS,
        in_flight_bytes_max: BATCH_BYTES,
        give_up_after: Some(MESSAGE_TIMEOUT),
        approval: Some(DestinationCheck::that_only_compares(config).approval()),
    }
}
