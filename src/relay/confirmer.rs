//! The one place that decides which position is stored, and which is reported to the server.
//!
//! A position goes through four steps, each with a type of its own: the ack tracker makes a
//! [`Done`], the progress writer commits it and makes a [`StoredLsn`], [`AwaitingStandbys`] holds
//! that back if a standby must have it first, and [`ReplicationStream::send_status`] reports it. A
//! destination that commits its records in transactions of its own would replace the writer, and
//! nothing else.

use std::time::{Duration, Instant};

use postrider_core::ack::Done;
use postrider_core::feedback::Feedback;
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::PgTime;

use crate::progress::{
    AwaitingStandbys, Gap, ProgressEvent, ProgressWriter, StoredLsn, fix_unread, unread_rows,
};
use crate::replication::{ReplicationError, ReplicationStream};
use crate::session_end::{RestartReason, SessionEnd};

/// Stores positions, and reports what is stored.
pub(super) struct Confirmer {
    feedback: Feedback,
    writer: ProgressWriter,
    /// What is stored and may be reported.
    reportable: StoredLsn,
    /// What is stored, and may be reported once the stream was read further.
    awaiting_standbys: AwaitingStandbys,
    /// What was reported last.
    reported: Lsn,
}

/// Where confirming starts in a session.
pub(super) struct Start {
    /// What is done, and stored.
    pub(super) done: Done,
    pub(super) stored: StoredLsn,
    /// What may be reported immediately.
    pub(super) reportable: StoredLsn,
    /// The rest may be reported once the stream was read up to this position.
    pub(super) safe_once_read_to: Option<Lsn>,
}

impl Confirmer {
    pub(super) fn new(
        writer: ProgressWriter,
        start: &Start,
        wal_sender_timeout: Duration,
        now: Instant,
    ) -> Self {
        let awaiting = start
            .safe_once_read_to
            .map(|safe_once_read_to| AwaitingStandbys::of(start.stored, safe_once_read_to));
        Confirmer {
            feedback: Feedback::new(start.done, wal_sender_timeout, now),
            writer,
            reportable: start.reportable,
            awaiting_standbys: awaiting.unwrap_or_default(),
            reported: start.reportable.lsn(),
        }
    }

    /// Events were acknowledged or parked since the last call.
    pub(super) fn events_done(&mut self, count: u64) {
        self.feedback.events_done(count);
    }

    /// The server asked for a status update.
    pub(super) fn reply_requested(&mut self) {
        self.feedback.reply_requested();
    }

    /// The session is about to end: a position that has moved is stored immediately.
    pub(super) fn hurry(&mut self) {
        self.feedback.hurry();
    }

    /// Stores what is done, if that is due. `awaited`: a position that somebody waits for.
    /// `skipped`: the tables of which rows were skipped since the last time.
    pub(super) fn store(
        &mut self,
        done: Done,
        awaited: Lsn,
        skipped: impl FnOnce() -> Vec<u32>,
        now: Instant,
    ) {
        self.feedback.set_awaited(awaited);
        let is_due = self.feedback.store_due(done, now).is_some_and(|due| due <= now);
        if is_due && !self.writer.is_storing() {
            self.writer.store(done, skipped());
            self.feedback.store_started(done, now);
        }
    }

    /// For how long a position has been on its way into the database.
    pub(super) fn storing_for(&self, now: Instant) -> Duration {
        self.writer.storing_for(now)
    }

    /// Waits until a position is stored, or until something about the slot's promise has changed.
    /// Cancel safe.
    pub(super) async fn next_event(&mut self) -> ProgressEvent {
        self.writer.next_event().await
    }

    /// Applies an event; returns what is stored now, or why the session ends.
    pub(super) fn apply(&mut self, event: ProgressEvent, slot: &str) -> Result<Done, SessionEnd> {
        let (done, position) = match event {
            ProgressEvent::Stored(done, position) => (done, position),
            ProgressEvent::Unread(tables) => {
                return Err(SessionEnd::fatal(unread_rows(slot, &tables), fix_unread(&tables)));
            }
            ProgressEvent::Unsent(unsent) => return Err(unsent.into()),
            ProgressEvent::Lapsed(lapses) => {
                return Err(Gap::Lapse { slot: slot.to_owned(), lapses }.into());
            }
            ProgressEvent::Failed(text) => {
                return Err(SessionEnd::restart(RestartReason::Postgres, text));
            }
        };
        match position {
            None => {}
            Some((stored, None)) => self.may_report(stored),
            Some((stored, Some(safe_once_read_to))) => {
                self.awaiting_standbys.push(stored, safe_once_read_to)
            }
        }
        Ok(done)
    }

    /// The stream was read up to this position: what the standbys of a failover slot have by now
    /// may be reported.
    pub(super) fn release_replicated(&mut self, seen: Lsn) {
        while let Some(stored) = self.awaiting_standbys.pop(seen) {
            self.may_report(stored);
        }
    }

    fn may_report(&mut self, stored: StoredLsn) {
        self.reportable = stored;
        self.feedback.store_finished();
    }

    /// When there is something to store or to report.
    pub(super) fn due(&self, done: Done, now: Instant) -> Instant {
        let report = self.feedback.report_due(now);
        match self.feedback.store_due(done, now) {
            // A position that is being stored wakes the session when that is done.
            Some(store) if !self.writer.is_storing() => report.min(store),
            _ => report,
        }
    }

    /// Reports the newest position that may be reported, and asks for an answer if `reply` is set.
    /// Returns whether it is a new one. Nothing else sends status updates.
    pub(super) async fn report(
        &mut self,
        stream: &mut ReplicationStream,
        clock: PgTime,
        reply: bool,
        now: Instant,
    ) -> Result<bool, ReplicationError> {
        stream.send_status(self.reportable, clock, reply).await?;
        self.feedback.reported(now);
        let is_new = self.reportable.lsn() > self.reported;
        self.reported = self.reportable.lsn();
        Ok(is_new)
    }

    /// What was reported last.
    pub(super) fn reported(&self) -> Lsn {
        self.reported
    }
}
