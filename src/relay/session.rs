//! One session: from the slot's confirmed position until something ends it.
//!
//! One task owns the replication socket and runs one loop. Its arms have priorities: a stop, the
//! broker's reports, a status update that is due, and last the next bytes of the stream, which are
//! read only while there is room in flight. That closed arm is the back-pressure: TCP fills, the
//! walsender waits, memory stays flat. Whatever breaks leaves the loop; there is one way back in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::flight::Waiting;
use super::incoming::Incoming;
use super::lot::{Lot, News};
use super::outgoing::Outgoing;
use super::pulse::Pulse;
use super::stop::{POSTGRES, STUCK, Stop};
use crate::clock::unix_micros;
use crate::ops::{State, Vitals};
use crate::postgres::ConnectionGuard;
use crate::progress::{Gap, Keeper, KeeperNews, StoredLsn, Untold, fix_unread, unread_rows};
use crate::replication::ReplicationStream;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::feedback::Feedback;
use postrider_core::framing::Frame;
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::PgTime;

/// How long events in flight may take once Postgres shuts down. It waits for us until then.
const POSTGRES_STOPPING_GRACE: Duration = Duration::from_secs(2);

/// The walsender sends every row by itself. Reading at once what comes would wake this thread, the
/// Kafka client's threads and the broker for every row, and cost several times the CPU; a row that
/// comes after a calm moment is read at once all the same (ADR 9).
const READ_INTERVAL: Duration = Duration::from_millis(1);
/// While a backlog is worked off nobody waits for single rows, and larger batches cost less.
const READ_INTERVAL_BEHIND: Duration = Duration::from_millis(5);
/// Rows committed longer ago than this are a backlog.
const BEHIND_MICROS: i64 = 1_000_000;

/// A running session.
pub(super) struct Session<'a, S> {
    pub(super) slot: &'a str,
    pub(super) stream: ReplicationStream,
    pub(super) postgres: ConnectionGuard,
    pub(super) incoming: Incoming<'a>,
    pub(super) out: Outgoing<'a, S>,
    pub(super) feedback: Feedback,
    /// Stores positions, before the server is told.
    pub(super) keeper: Keeper,
    /// What is stored, and may be told.
    pub(super) stored: StoredLsn,
    /// What is stored, and may be told once the stream has come so far: the oldest and the newest.
    pub(super) untold: Untold,
    pub(super) vitals: &'a Vitals,
    /// How long the server may be silent while it is asked for an answer every second.
    pub(super) silence_max: Duration,
    /// Since when the server owes us a sign of life.
    pub(super) listening_since: Instant,
    /// When the stream was last read.
    pub(super) last_read: Instant,
    /// The last read did not take all that was there.
    pub(super) has_more: bool,
    /// Whether Postgres can be heard.
    pub(super) pulse: Arc<Pulse>,
    /// For how long the broker has owed us something.
    pub(super) waiting: Waiting,
    /// When to give up waiting for the broker because Postgres is shutting down.
    pub(super) close_at: Option<Instant>,
    /// What the server was told last.
    pub(super) told: Lsn,
    /// Where an earlier session was given up because it was stuck. A new producer that gets no
    /// further is not at fault; trying again and again would only repeat events.
    pub(super) stuck_at: Option<Lsn>,
    /// On the way out: whatever the broker does, that is the state.
    pub(super) stopping: bool,
}

impl<S: Sink> Session<'_, S> {
    /// Runs until something ends the session.
    pub(super) async fn run(&mut self, shutdown: &mut Shutdown) -> Stop {
        loop {
            if let Err(stop) = self.turn(shutdown).await {
                return stop;
            }
        }
    }

    async fn turn(&mut self, shutdown: &mut Shutdown) -> Result<(), Stop> {
        self.pump()?;
        let now = Instant::now();
        self.check_deadlines(now)?;
        self.store(now);
        self.tell_shown();
        let due = self.due(now);
        if due <= now {
            return self.send_status(now).await;
        }
        let reading = self.is_reading();
        // What waits in the socket already has been waited for.
        let interval = if self.has_more { Duration::ZERO } else { self.read_interval() };
        let read_at = self.last_read + interval;
        let mut pause = reading && read_at > now;
        let wake_at = if pause { due.min(read_at) } else { due };
        if pause && self.is_behind() {
            // Not an await: epoll would wake this thread for every packet of the walsender, which
            // costs more than the rows. Everything else can wait for these milliseconds.
            std::thread::sleep(wake_at - now);
            pause = wake_at < read_at;
        }
        tokio::select! {
            biased;
            // 1. Somebody asked to stop.
            () = shutdown.draining() => Err(Stop::Asked),
            // 2. Postgres ended the ordinary connection: it is probably shutting down.
            reason = self.postgres.ended(), if self.close_at.is_none() => {
                let reason = reason.map(|error| crate::postgres::describe(&error));
                tracing::info!(reason, "Postgres closed the ordinary connection");
                self.close_at = Some(now + POSTGRES_STOPPING_GRACE);
                Ok(())
            }
            // 3. The broker reports.
            () = self.out.sink.news(&mut self.out.reports) => self.settle(),
            // 4. The side table reports.
            news = side_table(&mut self.out.lot) => {
                let done = self.out.learn(news)?;
                self.feedback.events_done(done);
                Ok(())
            }
            // 5. A position is stored.
            news = self.keeper.news() => self.learn_stored(news),
            // 6. A status update is due, or a deadline, or it is time to read on.
            () = tokio::time::sleep_until(wake_at.into()) => Ok(()),
            // 7. The stream goes on, while there is room.
            filled = self.stream.fill(), if reading && !pause => {
                let now = Instant::now();
                self.listening_since = now;
                self.last_read = now;
                self.has_more = filled?;
                Ok(())
            }
        }
    }

    /// Works off the frames that are here, while there is room.
    fn pump(&mut self) -> Result<(), Stop> {
        let was_reading = self.is_reading();
        self.out.begin_turn(self.pulse.server_ahead_micros());
        self.out.retry_again()?;
        self.out.retry_topics(false)?;
        if self.out.has_room() {
            self.incoming.retry(&mut self.out)?;
        }
        while self.is_reading() {
            match self.incoming.pop(&mut self.stream)? {
                None => break,
                Some(Frame::Data { position, message }) => {
                    self.incoming.message(position, &message, &mut self.out)?
                }
                Some(Frame::Keepalive { wal_end, reply_requested }) => {
                    self.out.acks.keepalive(wal_end, self.incoming.in_transaction());
                    if reply_requested {
                        self.feedback.asked();
                    }
                }
            }
        }
        if !was_reading {
            // What the server sent while nobody listened counts as heard.
            self.listening_since = self.out.now;
        }
        Ok(())
    }

    fn read_interval(&self) -> Duration {
        if self.is_behind() { READ_INTERVAL_BEHIND } else { READ_INTERVAL }
    }

    fn is_behind(&self) -> bool {
        let committed_at = self.incoming.committed_at().unix_micros();
        self.out.clocks.server().saturating_sub(committed_at) > BEHIND_MICROS
    }

    fn is_reading(&self) -> bool {
        self.incoming.is_done() && self.out.has_room()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        let done = self.out.settle()?;
        if done > 0 {
            self.waiting.is_over(Instant::now());
        }
        self.feedback.events_done(done);
        Ok(())
    }

    /// Stores what is done, if that is due.
    fn store(&mut self, now: Instant) {
        let done = self.out.acks.done_so_far();
        self.feedback.awaited(self.vitals.awaited());
        let due = self.feedback.store_due(done, now);
        if due.is_some_and(|due| due <= now) && !self.keeper.is_storing() {
            let skipped = self.incoming.take_skipped();
            self.keeper.store(done, skipped);
            self.feedback.storing(done, now);
        }
    }

    fn learn_stored(&mut self, news: KeeperNews) -> Result<(), Stop> {
        let (done, tell) = match news {
            KeeperNews::Stored(done, tell) => (done, tell),
            KeeperNews::Unread(tables) => {
                return Err(Stop::halt(unread_rows(self.slot, &tables), fix_unread(&tables)));
            }
            KeeperNews::Unsent(unsent) => return Err(unsent.into()),
            KeeperNews::Lapsed(lapses) => {
                return Err(Gap::Lapse { slot: self.slot.to_owned(), lapses }.into());
            }
            KeeperNews::Failed(text) => return Err(Stop::restart(POSTGRES, text)),
        };
        self.out.keep(done);
        match tell {
            None => {}
            Some((stored, None)) => {
                self.stored = stored;
                self.feedback.stored();
            }
            Some((stored, Some(shown_by))) => self.untold.push(stored, shown_by),
        }
        Ok(())
    }

    /// What the standbys of a failover slot have by now, may be told.
    fn tell_shown(&mut self) {
        while let Some(stored) = self.untold.pop(self.out.acks.seen()) {
            self.stored = stored;
            self.feedback.stored();
        }
    }

    /// When there is something to store or to tell.
    fn due(&self, now: Instant) -> Instant {
        let report = self.feedback.report_due(now);
        match self.feedback.store_due(self.out.acks.done_so_far(), now) {
            // One that is on its way comes back by itself.
            Some(store) if !self.keeper.is_storing() => report.min(store),
            _ => report,
        }
    }

    /// Deadlines need no arm of their own: a heartbeat is due every second.
    fn check_deadlines(&mut self, now: Instant) -> Result<(), Stop> {
        if let Some(lot) = &mut self.out.lot {
            lot.tick(self.vitals, now)?;
        }
        let silence = now.saturating_duration_since(self.listening_since);
        if self.is_reading() && silence > self.silence_max {
            return Err(Stop::silent(silence));
        }
        self.pulse.check(now)?;
        self.waiting.look(&self.out, now)?;
        if self.is_waiting()
            && self.waiting.is_stuck(self.out.sink.answered_at())
            && self.stuck_at.is_none_or(|stuck_at| self.out.watermark() > stuck_at)
        {
            return Err(Stop::restart(
                STUCK,
                "the brokers answer, but the oldest event has not been acknowledged for a while; making \
                 a new producer",
            ));
        }
        // A server that shuts down has ended the sessions that positions are stored by.
        let idle = self.out.acks.in_flight_events() == 0;
        match self.close_at {
            Some(close_at) if idle || now >= close_at => Err(Stop::restart(
                "postgres_shutdown",
                "Postgres closed the ordinary connection; closing the stream so that it can stop",
            )),
            _ => Ok(()),
        }
    }

    /// The only place that tells the server a position.
    async fn send_status(&mut self, now: Instant) -> Result<(), Stop> {
        let stored = self.stored;
        // A server that can't be heard is not asked: its answers would pile up.
        let reply = self.is_reading();
        let clock = PgTime::from_unix_micros(unix_micros());
        self.stream.send_status(stored, clock, reply).await?;
        self.feedback.reported(now);
        let progress = stored.lsn() > self.told || !self.is_waiting();
        self.told = stored.lsn();
        self.vitals.confirmed(stored.lsn(), progress);
        self.update_vitals(now);
        Ok(())
    }

    /// Whether the broker owes us something.
    pub(super) fn is_waiting(&self) -> bool {
        self.out.is_waiting() || self.incoming.is_holding()
    }

    /// Waits for what is in flight, tells the server a last time, and says goodbye. Gives back what
    /// the server was told.
    pub(super) async fn drain(mut self, shutdown: &mut Shutdown, limit: Duration) -> Lsn {
        self.stopping = true;
        self.feedback.hurry();
        self.vitals.set_state(State::Stopping, None);
        tokio::select! {
            biased;
            () = shutdown.now() => return self.told,
            () = self.finish(Instant::now() + limit) => {}
        }
        let left = self.out.acks.in_flight_events();
        if left > 0 {
            tracing::warn!(left, "events are still in flight; they will be published again");
            // First of all: a goodbye that nobody hears takes its time, and a standby may have the slot
            // before it is over.
            self.out.sink.stop().await;
        }
        // A link that is gone costs duplicates at the next start, nothing else.
        if self.send_status(Instant::now()).await.is_err() {
            return self.told;
        }
        tokio::select! {
            biased;
            () = shutdown.now() => {}
            said = self.stream.close() => if let Err(error) = said {
                tracing::debug!(%error, "the server was gone before the goodbye");
            }
        }
        self.told
    }

    /// Waits for what is in flight, until the deadline or until it can't be waited for: a record whose
    /// timestamp has become too old must not be acknowledged any more, however long a stop may take.
    async fn finish(&mut self, deadline: Instant) {
        loop {
            self.out.begin_turn(self.pulse.server_ahead_micros());
            let now = Instant::now();
            let is_going = self.out.retry_topics(true).is_ok()
                && self.pulse.check(now).is_ok()
                && self.waiting.look(&self.out, now).is_ok();
            self.store(now);
            self.tell_shown();
            let is_stored = self.out.kept >= Some(self.out.acks.done_so_far());
            if self.out.is_drained() && is_stored || now >= deadline || !is_going {
                return;
            }
            let due = self.due(now).min(deadline);
            if due <= now && self.send_status(now).await.is_err() {
                return;
            }
            let settled = tokio::select! {
                biased;
                () = self.out.sink.news(&mut self.out.reports) => self.settle(),
                news = side_table(&mut self.out.lot) => self.out.learn(news).map(|done| {
                    self.feedback.events_done(done);
                }),
                news = self.keeper.news() => self.learn_stored(news),
                () = tokio::time::sleep_until(due.into()) => Ok(()),
            };
            if settled.is_err() {
                return;
            }
        }
    }
}

/// Waits for news of the side table, for ever if there is none. Cancel safe.
pub(super) async fn side_table(lot: &mut Option<Lot<'_>>) -> News {
    match lot {
        Some(lot) => lot.news().await,
        None => std::future::pending().await,
    }
}
