//! What is to be replayed next, and the progress so far. Belongs to the connection whose turn it
//! is.

use std::collections::{HashMap, VecDeque};

use tokio_postgres::Client;

use super::batch::Published;
use super::pace::Pace;
use super::summary::Summary;
use super::{BATCH_BYTES, BATCH_EVENTS, BREAKS_MAX, LOOK_AHEAD, MESSAGE_TIMEOUT, Request};
use crate::config::Config;
use crate::parking::dead::CommandError;
use crate::parking::filter::Filter;
use crate::parking::store::{self, Place};
use crate::progress::DestinationCheck;
use crate::shutdown::{Phase, Shutdown};
use crate::sink::{Sink, SinkFactory, SinkOptions};

pub(super) struct ReplayQueue<'a, S> {
    slot: &'a str,
    filter: &'a Filter,
    reader: &'a Client,
    tell: &'a mut dyn FnMut(&Summary),
    pub(super) sink: S,
    open: bool,
    /// Keys of the events of the last batch, which are perhaps not marked yet, by row id.
    pub(super) passed: HashMap<i64, String>,
    /// How often the connection to the brokers failed in a row.
    breaks: usize,
    newest: i64,
    last: Place,
    /// How many places can still be looked up.
    room: usize,
    places: VecDeque<Place>,
    pace: Pace,
    pub(super) summary: Summary,
}

impl<'a, S: Sink> ReplayQueue<'a, S> {
    pub(super) async fn open<F: SinkFactory<Sink = S>>(
        config: &'a Config,
        factory: &F,
        request: &'a Request,
        reader: &'a Client,
        tell: &'a mut dyn FnMut(&Summary),
    ) -> Result<Self, CommandError> {
        let failed = |error| CommandError::statement("count events", &error);
        let (slot, filter) = (&config.postgres.slot, &request.filter);
        let newest = store::newest(reader).await.map_err(failed)?;
        let counts = store::dead_counts(reader, slot, filter, newest).await.map_err(failed)?;
        let summary = Summary::expecting(&counts, filter);
        tell(&summary);
        Ok(ReplayQueue {
            slot,
            filter,
            reader,
            tell,
            sink: factory.make(sink_options(config)).map_err(CommandError::Sink)?,
            open: false,
            passed: HashMap::new(),
            breaks: 0,
            newest,
            last: Place::START,
            room: usize::try_from(filter.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX),
            places: VecDeque::new(),
            pace: Pace::new(request.rate),
            summary,
        })
    }

    /// The next batch, when it is time for it. Empty: there is none, or continuing would be
    /// pointless.
    pub(super) async fn next(&mut self, stop: &mut Shutdown) -> Result<Vec<Place>, CommandError> {
        let over = self.summary.connection_error.is_some() || stop.phase() >= Phase::Draining;
        if over || !self.look_ahead().await? {
            return Ok(Vec::new());
        }
        tokio::select! {
            biased;
            () = stop.draining() => return Ok(Vec::new()),
            () = self.pace.wait() => {}
        }
        if !self.open {
            self.sink.restart().await.map_err(CommandError::Sink)?;
            self.open = true;
        }
        Ok(self.take_places())
    }

    /// Whether there is anything left to try.
    async fn look_ahead(&mut self) -> Result<bool, CommandError> {
        let failed = |error| CommandError::statement("find dead events", &error);
        while self.places.is_empty() && self.room > 0 {
            let (client, filter) = (self.reader, self.filter);
            let limit = LOOK_AHEAD.min(self.room);
            let found =
                store::dead_places(client, self.slot, filter, self.newest, self.last, limit);
            let found = found.await.map_err(failed)?;
            let Some(last) = found.last() else { return Ok(false) };
            self.last = *last;
            self.room -= found.len().min(self.room);
            self.places.extend(found.into_iter().filter(|place| !place.fragment));
        }
        Ok(!self.places.is_empty())
    }

    fn take_places(&mut self) -> Vec<Place> {
        let events_max = self.pace.batch_max(BATCH_EVENTS);
        let mut next: Vec<Place> = Vec::new();
        let mut bytes = 0_usize;
        while let Some(place) = self.places.front() {
            bytes = bytes.saturating_add(place.value_bytes);
            if !next.is_empty() && (bytes > BATCH_BYTES || next.len() >= events_max) {
                break;
            }
            next.extend(self.places.pop_front());
        }
        next
    }

    /// Notes a batch, which is about to be marked, and decides what to do about trouble.
    pub(super) fn note(&mut self, places: &[Place], published: &Published, phase: Phase) {
        let (delivered, failed) = (published.delivered().len(), published.failed());
        let tried = delivered + failed.len();
        let not_tried = published.not_tried();
        self.summary.replayed += delivered as u64;
        self.summary.held += published.held as u64;
        self.summary.unconfirmed += published.unconfirmed as u64;
        self.summary.unknown += published.unknown as u64;
        self.summary.busy += published.busy as u64;
        failed.iter().for_each(|it| self.summary.add_failure(&it.row.topic, it.refusal));
        self.passed.clone_from(&published.passed);
        self.pace.sent(tried);
        self.open = published.open;
        match &published.trouble {
            // Asked to stop: rows that were not tried are left.
            _ if phase >= Phase::Draining => {}
            // Only an earlier failure can have held them back.
            None => {
                self.breaks = 0;
                self.summary.held += not_tried.len() as u64;
            }
            // They are tried once more, before all others.
            Some(trouble) => {
                self.breaks = if tried > 0 { 1 } else { self.breaks + 1 };
                let again = places.iter().rev().filter(|place| not_tried.contains(&place.id));
                again.for_each(|place| self.places.push_front(*place));
                match self.breaks < BREAKS_MAX {
                    true => tracing::warn!("{trouble}; trying again"),
                    false => self.summary.connection_error = Some(trouble.text.clone()),
                }
            }
        }
        (self.tell)(&self.summary);
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
