//! Rows → sink, and the sink's reports → watermark.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::stop::{Fatal, Stop};
use crate::ack::{AckTracker, Ticket, UnknownTicket};
use crate::config::{LimitsConfig, OutboxTable};
use crate::envelope::Envelope;
use crate::lsn::Lsn;
use crate::ops::{Metrics, Routes};
use crate::outbox::{Event, Row, RowFault};
use crate::pgoutput::PgTime;
use crate::sink::{NotTaken, Refusal, Report, Sink, Verdict};

/// How many times the events that may be in flight can have been read since the oldest of them. A
/// partition without a leader holds its records for as long as it likes, while others go on: what
/// comes behind them is remembered, and repeated after a crash.
const SPAN_SHARES: usize = 4;

/// What travels with an event while it is in flight.
pub(super) struct Flight {
    route: usize,
    table: usize,
    commit_time: PgTime,
}

/// Whether a row is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is in flight.
    Yes,
    /// There is no room now: try again after the next news.
    NotYet,
}

/// The outgoing half of a session.
pub(super) struct Outgoing<'a, S> {
    pub(super) sink: &'a mut S,
    pub(super) acks: AckTracker<Flight>,
    pub(super) routes: &'a mut Routes,
    pub(super) metrics: &'a Metrics,
    pub(super) envelope: &'a Envelope,
    pub(super) tables: &'a [OutboxTable],
    pub(super) limits: &'a LimitsConfig,
    pub(super) reports: Vec<Report>,
    /// The bounds were reached; see [`update_room`](Self::update_room).
    pub(super) full: bool,
    /// The shortest time for which the stamp of a record sent in this session is good.
    pub(super) stamp_age_min: Duration,
    /// Events in flight that were refused: they hold the position until the session ends.
    pub(super) held_for_ever: usize,
}

impl<'a, S: Sink> Outgoing<'a, S> {
    /// Whether another row may be read.
    pub(super) fn has_room(&self) -> bool {
        !self.full
    }

    /// Once full, there is no room before half of it is free again. Filling every gap at once would
    /// send batches as small as the acknowledgements, for ever: tiny requests keep the broker busy
    /// and the acknowledgements small.
    fn update_room(&mut self) {
        let share = if self.full { 2 } else { 1 };
        let reached = |now: usize, max: usize| now >= max.div_ceil(share);
        let span_max = self.limits.in_flight_events.saturating_mul(SPAN_SHARES);
        self.full = reached(self.acks.in_flight_events(), self.limits.in_flight_events)
            || reached(self.acks.in_flight_bytes(), self.limits.in_flight_bytes)
            || reached(self.acks.span_events(), span_max);
    }

    /// Hands a row to the sink.
    pub(super) fn publish(&mut self, row: &Row<'_>) -> Result<Sent, Stop> {
        let event = Event::from_row(row).map_err(|fault| self.row_fault(row, &fault))?;
        let Some(destination) = self.sink.destination(&event.topic) else {
            return Ok(Sent::NotYet);
        };
        self.stamp_age_min = self.stamp_age_min.min(destination.stamp_age_max);
        let record = self
            .envelope
            .record(&event, destination, unix_micros())
            .map_err(|fault| self.row_fault(row, &fault))?;
        let bytes = record.content_bytes();
        // An event larger than the bound is admitted alone.
        let in_flight = self.acks.in_flight_bytes();
        if in_flight > 0 && in_flight + bytes > self.limits.in_flight_bytes {
            return Ok(Sent::NotYet);
        }
        match self.sink.enqueue(&record, self.acks.next_ticket()) {
            Ok(()) => {
                let route = self.routes.number(event.table, &event.topic);
                let flight = Flight { route, table: event.table, commit_time: event.commit_time };
                self.acks.admit(bytes, flight);
                self.update_room();
                Ok(Sent::Yes)
            }
            Err(NotTaken::Busy) => Ok(Sent::NotYet),
            Err(NotTaken::Broken(broken)) => Err(broken.into()),
            Err(NotTaken::Refused(refusal)) => Err(self.refused(&refusal, event.table)),
        }
    }

    /// Works off the sink's reports; gives back how many events are done. What went well is counted
    /// also when something else went wrong.
    pub(super) fn settle(&mut self) -> Result<u64, Stop> {
        let now = unix_micros();
        let mut result = Ok(0);
        let mut reports = std::mem::take(&mut self.reports);
        for report in reports.drain(..) {
            let stop = match report {
                Report::Done(ticket) => match self.done(ticket, now) {
                    Ok(()) => {
                        result = result.map(|done| done + 1);
                        continue;
                    }
                    Err(unknown) => unknown.into(),
                },
                Report::Refused(ticket, refusal) => {
                    self.held_for_ever += 1;
                    let table = self.acks.get(ticket).map_or(0, |flight| flight.table);
                    self.refused(&refusal, table)
                }
                Report::Broken(broken) => broken.into(),
            };
            result = result.and(Err(stop));
        }
        self.reports = reports;
        self.update_room();
        result
    }

    fn done(&mut self, ticket: Ticket, now_unix_micros: i64) -> Result<(), UnknownTicket> {
        let flight = self.acks.done(ticket)?;
        if let Some(route) = self.routes.get(flight.route) {
            let micros = (now_unix_micros - flight.commit_time.unix_micros()).max(0);
            route.published(micros as f64 / 1e6);
        }
        Ok(())
    }

    /// Whether waiting for more reports can change anything.
    pub(super) fn is_drained(&self) -> bool {
        self.acks.in_flight_events() <= self.held_for_ever
    }

    /// Seconds since the commit of the oldest event that is not done: one in flight, else the held.
    pub(super) fn lag_seconds(&self, held_since: Option<PgTime>) -> f64 {
        let oldest = self.acks.oldest().map(|flight| flight.commit_time).or(held_since);
        oldest.map_or(0.0, |time| (unix_micros() - time.unix_micros()).max(0) as f64 / 1e6)
    }

    /// What the server may be told.
    pub(super) fn watermark(&self) -> Lsn {
        self.acks.confirmed().lsn()
    }

    fn row_fault(&mut self, row: &Row<'_>, fault: &RowFault) -> Stop {
        let table = self.table(row.table);
        let topic = row.topic_for_people();
        self.routes.failed(row.table, &topic, "rejected");
        let fix = match fault {
            RowFault::TooLarge { .. } => MEND_AND_START,
            _ => {
                "a row in the log can't be changed: correct what writes such rows; to pass this one \
                 by, stop the relay and move the slot behind its commit with \
                 pg_replication_slot_advance, which gives up this event and all others up to there"
            }
        };
        let reason = format!("{fault}{}", self.name_in_table(row.table, fault));
        Stop::Halt(unpublishable(table, &row.id_for_people(), &topic, &reason, fix))
    }

    /// A fault names our column; people look for the table's.
    fn name_in_table(&self, table: usize, fault: &RowFault) -> String {
        let mapped = || self.tables.get(table)?.columns.mapped(fault.column()?);
        mapped().map(|name| format!(" (the table's column \"{name}\")")).unwrap_or_default()
    }

    fn refused(&mut self, refusal: &Refusal, table: usize) -> Stop {
        let class = match refusal.verdict {
            Verdict::Suspect | Verdict::Retryable => "retryable",
            Verdict::Rejected => "rejected",
        };
        self.routes.failed(table, &refusal.topic, class);
        if refusal.verdict == Verdict::Suspect {
            return Stop::restart(
                "refused",
                format!("topic {} refused records: {}", refusal.topic, refusal.reason),
            );
        }
        let id = refusal.id.as_deref().unwrap_or("(no id)");
        let table = self.table(table);
        Stop::Halt(unpublishable(table, id, &refusal.topic, &refusal.reason, MEND_AND_START))
    }

    fn table(&self, number: usize) -> &'a str {
        self.envelope.tables.get(number).map_or("", |table| table.name.as_str())
    }
}

const MEND_AND_START: &str = "mend the cause (create the topic, allow writing to it, raise its max.message.bytes; for events \
     above 32 MiB also kafka.properties.message.max.bytes) and start again: the relay continues with \
     this event; nothing behind it was confirmed";

/// The sentence for an event that can't be published. Never says what is in it.
fn unpublishable(table: &str, id: &str, topic: &str, reason: &str, fix: &str) -> Fatal {
    Fatal::new(
        format!("event {id} of table {table} for topic {topic:?} can't be published: {reason}"),
        fix,
    )
}

pub(super) fn unix_micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
