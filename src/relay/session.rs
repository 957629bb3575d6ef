//! One session: from the stored position until something ends it.
//!
//! # Which position is confirmed, and why
//!
//! A confirmed position allows the server to forget everything before it, and a later start from an
//! earlier position is silently moved forward to it. Too far is data loss; too little is a full
//! disk and duplicates. The stream carries many positions, and most of them must never be
//! confirmed:
//!
//! - **The start of a data frame** (XLogData) shows where a change is in the log. The log
//!   interleaves transactions and logical decoding sends them in the order of their commits, so
//!   these positions go back and forth: at the start of one row, changes of an earlier position may
//!   still be to come. They serve to compare changes of one transaction, and for nothing else.
//! - **The end of a commit** is what counts. Commits arrive in the order of their ends
//!   (<https://www.postgresql.org/docs/current/logicaldecoding-explanation.html>), so once every
//!   event of a transaction, and every event before it, is acknowledged, everything before that end
//!   is done. Acknowledgements come back in any order; the ack tracker turns them into that prefix,
//!   and nothing else can make a `ConfirmedLsn`.
//! - **The `wal_end` of a keepalive** shows that the server has sent everything up to there. It
//!   counts outside a transaction and with nothing in flight. Without it, an idle outbox in a busy
//!   server would hold back the log until the disk is full. Inside a transaction, or with an event
//!   in flight, it would confirm what is not done
//!   (<https://www.postgresql.org/docs/current/protocol-replication.html>).
//!
//! A position is **stored before it is reported**: committed in `postrider.progress`, on this
//! server, and only then sent. So a slot that is ahead of the stored position was moved or
//! recreated by somebody else, with certainty; the events in between were never published, and only
//! an operator can decide what happens to them. It also makes a restart start where the last
//! session was: servers write a slot's position to disk at checkpoints only, and after a crash an
//! older one comes back. How much of the transaction *after* the confirmed position is done is
//! stored too, so that a restart inside a large transaction doesn't publish its beginning again;
//! this is never reported to the server, which can only start at the beginning of a transaction. A
//! slot that is synchronized to standbys must not get ahead of the standby's copy of the stored
//! position: such a position is reported once the stream itself has shown that the standbys have
//! it.
//!
//! Every moved position is stored after 500 events or 100 ms, so a kill repeats little. Storing
//! writes to the log, which moves the position again: a position that only keepalives have moved is
//! stored rarely. The server hears from the relay at least every second, also while the broker is
//! unreachable, or it would end the session after `wal_sender_timeout`. While the relay is able to
//! read, that message asks for an answer; its absence shows that the link is dead. A server that is
//! shutting down asks again the moment it is answered, so a repeated position is sent every 100 ms
//! at most. (ADRs 3, 4, 17 and 26 have the measurements; `confirmer` has the code.)
//!
//! # Where an event can wait
//!
//! | place | what waits there | bounded by |
//! |---|---|---|
//! | the socket, and the server | everything not yet read | TCP's window; the server's disk |
//! | `ReplicationStream` | frames that are read and not yet processed | one read, or one frame |
//! | `SamePositionOrder` | rows and messages at one position, until they are ordered | 300 frames |
//! | `Incoming` | one row that waits for room, and the rest of its pack | one frame |
//! | `TopicQueues` | events in flight whose topic, or its schema, is being looked up | events in flight |
//! | `Parking::retry_queue` | events in flight that have to be retried | events in flight |
//! | `Parking::being_parked` | events on their way into the side table | events in flight |
//! | the careful lane | copies that wait for their partition's group | events and bytes in flight |
//! | the destination's client | records that are being sent | events and bytes in flight |
//!
//! Events in flight are bounded in number and bytes ([`Outgoing::has_room`]); at the bound nothing
//! more is read. That is the back-pressure: TCP fills, the walsender waits, memory stays flat.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::framing::Frame;
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::PgTime;

use super::confirmer::Confirmer;
use super::incoming::Incoming;
use super::listening::Listening;
use crate::clock::unix_micros;
use crate::ops::{State, Vitals};
use crate::parking;
use crate::postgres::ConnectionGuard;
use crate::publish::flight::Waiting;
use crate::publish::outgoing::Outgoing;
use crate::pulse::Pulse;
use crate::replication::ReplicationStream;
use crate::session_end::{RestartReason, SessionEnd};
use crate::shutdown::Shutdown;
use crate::sink::Sink;

/// How long events in flight may take once Postgres shuts down. It waits for us until then.
const POSTGRES_STOPPING_GRACE: Duration = Duration::from_secs(2);
/// Rows committed longer ago than this are a backlog.
const BEHIND_MICROS: i64 = 1_000_000;

/// A running session. One task owns the replication socket and runs one loop.
pub(super) struct Session<'a, S> {
    pub(super) slot: &'a str,
    pub(super) stream: ReplicationStream,
    pub(super) postgres: ConnectionGuard,
    pub(super) incoming: Incoming<'a>,
    pub(super) out: Outgoing<'a, S>,
    pub(super) confirmer: Confirmer,
    pub(super) vitals: &'a Vitals,
    pub(super) listening: Listening,
    /// Whether Postgres can be heard.
    pub(super) pulse: Arc<Pulse>,
    /// For how long the broker has owed us something.
    pub(super) waiting: Waiting,
    /// When to stop waiting for the broker because Postgres is shutting down.
    pub(super) close_at: Option<Instant>,
    /// Where an earlier session was given up because it was stuck. A new producer that gets no
    /// further is not at fault; restarting again and again would only repeat events.
    pub(super) stuck_at: Option<Lsn>,
    /// The session is ending: whatever the broker does, that is the state.
    pub(super) stopping: bool,
}

impl<S: Sink> Session<'_, S> {
    /// Runs until something ends the session.
    pub(super) async fn run(&mut self, shutdown: &mut Shutdown) -> SessionEnd {
        loop {
            if let Err(end) = self.step(shutdown).await {
                return end;
            }
        }
    }

    /// Processes what has arrived, then waits for whatever comes first. Frames that one step reads
    /// are processed by the next.
    async fn step(&mut self, shutdown: &mut Shutdown) -> Result<(), SessionEnd> {
        self.pump()?;
        let now = Instant::now();
        self.check_deadlines(now)?;
        self.store(now);
        // Before anything is waited for: a busy stream must not delay it.
        let due = self.confirmer.due(self.out.acks.done_so_far(), now);
        if due <= now {
            return self.send_status(now).await;
        }
        let reading = self.is_reading();
        let is_behind = self.is_behind();
        let read_at = self.listening.read_at(is_behind);
        let mut pause = reading && read_at > now;
        let wake_at = if pause { due.min(read_at) } else { due };
        if pause && is_behind {
            // Not an await: epoll would wake this thread for every packet of the walsender, which
            // costs more than the rows. Whatever shares the runtime waits up to 5 ms.
            std::thread::sleep(wake_at - now);
            pause = wake_at < read_at;
        }
        tokio::select! {
            biased;
            // 1. A stop was requested. First, so that no amount of work can delay it.
            () = shutdown.draining() => Err(SessionEnd::Shutdown),
            // 2. Postgres ended the ordinary connection: it is probably shutting down. Before the
            // reports, because it starts a deadline for them.
            reason = self.postgres.ended(), if self.close_at.is_none() => {
                let reason = reason.map(|error| crate::postgres::describe(&error));
                tracing::info!(reason, "Postgres closed the ordinary connection");
                self.close_at = Some(now + POSTGRES_STOPPING_GRACE);
                Ok(())
            }
            // 3. The broker reports. Before reading, because acknowledgements make room and move
            // the position.
            () = self.out.sink.receive(&mut self.out.reports) => self.settle(),
            // 4. The side table reports: for the same reason, and rarely.
            event = parking::session::next_event(&mut self.out.parking) => {
                let done = self.out.apply(event)?;
                self.confirmer.events_done(done);
                Ok(())
            }
            // 5. A position is stored, so that it can be reported.
            event = self.confirmer.next_event() => {
                let done = self.confirmer.apply(event, self.slot)?;
                self.out.note_stored(done);
                Ok(())
            }
            // 6. A status update is due, or a deadline, or it is time to read on.
            () = tokio::time::sleep_until(wake_at.into()) => Ok(()),
            // 7. The stream, while there is room. Last, because it alone is always ready.
            filled = self.stream.fill(), if reading && !pause => {
                self.listening.heard(filled?, Instant::now());
                Ok(())
            }
        }
    }

    /// Processes the frames that have arrived, while there is room.
    fn pump(&mut self) -> Result<(), SessionEnd> {
        let was_reading = self.is_reading();
        self.out.begin_turn(self.pulse.server_ahead_micros());
        self.out.retry_parked()?;
        self.out.retry_topics(false)?;
        if self.out.has_room() {
            self.incoming.retry(&mut self.out)?;
        }
        self.incoming.check_updates(self.out.acks.in_flight_events())?;
        while self.is_reading() {
            match self.incoming.pop(&mut self.stream)? {
                None => break,
                Some(Frame::Data { position, message }) => {
                    self.incoming.message(position, &message, &mut self.out)?
                }
                Some(Frame::Keepalive { wal_end, reply_requested }) => {
                    self.out.acks.keepalive(wal_end, self.incoming.in_transaction());
                    if reply_requested {
                        self.confirmer.reply_requested();
                    }
                }
            }
        }
        if !was_reading {
            self.listening.restart(self.out.now);
        }
        Ok(())
    }

    fn is_behind(&self) -> bool {
        let committed_at = self.incoming.committed_at().unix_micros();
        self.out.clocks.server().saturating_sub(committed_at) > BEHIND_MICROS
    }

    fn is_reading(&self) -> bool {
        self.incoming.is_done() && self.out.has_room()
    }

    fn settle(&mut self) -> Result<(), SessionEnd> {
        let done = self.out.settle()?;
        if done > 0 {
            self.waiting.note_acknowledged(Instant::now());
        }
        self.confirmer.events_done(done);
        Ok(())
    }

    /// Stores what is done, if that is due.
    fn store(&mut self, now: Instant) {
        let Session { confirmer, out, vitals, incoming, .. } = self;
        let skipped = || incoming.take_skipped();
        confirmer.store(out.acks.done_so_far(), vitals.cleaner_waits_for(), skipped, now);
        confirmer.release_replicated(out.acks.seen());
    }

    /// Deadlines need no arm of their own: a heartbeat is due every second.
    fn check_deadlines(&mut self, now: Instant) -> Result<(), SessionEnd> {
        if let Some(parking) = &mut self.out.parking {
            parking.tick(self.vitals, now)?;
        }
        if let (true, Some(silence)) = (self.is_reading(), self.listening.too_silent(now)) {
            return Err(SessionEnd::silent(silence));
        }
        self.pulse.check(now)?;
        self.waiting.check(&self.out, now)?;
        if self.is_waiting()
            && self.waiting.is_stuck(self.out.sink.answered_at())
            && self.stuck_at.is_none_or(|stuck_at| self.out.watermark() > stuck_at)
        {
            return Err(SessionEnd::restart(
                RestartReason::Stuck,
                "the brokers answer, but the oldest event has not been acknowledged for a while; \
                 replacing the producer",
            ));
        }
        // A server that is shutting down has ended the sessions through which positions are stored.
        let idle = self.out.acks.in_flight_events() == 0;
        match self.close_at {
            Some(close_at) if idle || now >= close_at => Err(SessionEnd::restart(
                RestartReason::PostgresShutdown,
                "Postgres closed the ordinary connection; closing the stream so that it can stop",
            )),
            _ => Ok(()),
        }
    }

    async fn send_status(&mut self, now: Instant) -> Result<(), SessionEnd> {
        // While nothing is read, no answer is requested: the answers would pile up.
        let reply = self.is_reading();
        let clock = PgTime::from_unix_micros(unix_micros());
        let is_new = self.confirmer.report(&mut self.stream, clock, reply, now).await?;
        self.vitals.set_confirmed(self.confirmer.reported());
        if is_new || !self.is_waiting() {
            self.vitals.note_progress();
        }
        self.update_vitals(now);
        Ok(())
    }

    /// Whether the broker owes us something.
    pub(super) fn is_waiting(&self) -> bool {
        self.out.is_waiting() || self.incoming.is_holding()
    }

    /// The position that was reported to the server last.
    pub(super) fn reported_lsn(&self) -> Lsn {
        self.confirmer.reported()
    }

    /// Waits for what is in flight, reports for the last time, and closes the stream. Returns what
    /// was reported.
    pub(super) async fn drain(mut self, shutdown: &mut Shutdown, limit: Duration) -> Lsn {
        self.stopping = true;
        self.confirmer.hurry();
        self.vitals.set_state(State::Stopping, None);
        tokio::select! {
            biased;
            () = shutdown.now() => return self.reported_lsn(),
            () = self.finish(Instant::now() + limit) => {}
        }
        let left = self.out.acks.in_flight_events();
        if left > 0 {
            tracing::warn!(left, "events are still in flight; they will be published again");
            // This comes first: closing takes time if nobody answers, and another instance may have
            // the slot before it is done.
            self.out.sink.stop().await;
        }
        // A link that is gone costs duplicates at the next start, nothing else.
        if self.send_status(Instant::now()).await.is_err() {
            return self.reported_lsn();
        }
        let reported = self.reported_lsn();
        tokio::select! {
            biased;
            () = shutdown.now() => {}
            closed = self.stream.close() => if let Err(error) = closed {
                tracing::debug!(%error, "the server was gone before the stream was closed");
            }
        }
        reported
    }

    /// Waits for what is in flight, until the deadline or until waiting must end: a record whose
    /// timestamp has become too old must not be acknowledged any more, however long a stop is
    /// allowed to take.
    async fn finish(&mut self, deadline: Instant) {
        loop {
            self.out.begin_turn(self.pulse.server_ahead_micros());
            let now = Instant::now();
            let is_alive = self.out.retry_topics(true).is_ok()
                && self.pulse.check(now).is_ok()
                && self.waiting.check(&self.out, now).is_ok();
            self.store(now);
            let done = self.out.acks.done_so_far();
            let is_stored = self.out.stored >= Some(done);
            if self.out.is_drained() && is_stored || now >= deadline || !is_alive {
                return;
            }
            let due = self.confirmer.due(done, now).min(deadline);
            if due <= now && self.send_status(now).await.is_err() {
                return;
            }
            let settled = tokio::select! {
                biased;
                () = self.out.sink.receive(&mut self.out.reports) => self.settle(),
                event = parking::session::next_event(&mut self.out.parking) => {
                    self.out.apply(event).map(|done| self.confirmer.events_done(done))
                }
                event = self.confirmer.next_event() => {
                    self.confirmer.apply(event, self.slot).map(|done| self.out.note_stored(done))
                }
                () = tokio::time::sleep_until(due.into()) => Ok(()),
            };
            if settled.is_err() {
                return;
            }
        }
    }
}
