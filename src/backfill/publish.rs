//! The loop that reads rows from the tables, publishes them, and stores its progress.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reader::SnapshotReader;
use super::rows::{Rows, TableRow};
use super::run::LOOK_EVERY;
#[cfg(doc)]
use super::store::Attempt;
use crate::clock::{self, unix_micros};
use crate::ops::{State, Vitals};
use crate::parking;
use crate::publish::attempt::Sent;
use crate::publish::flight::Waiting;
use crate::publish::outgoing::Outgoing;
use crate::publish::raw_event::{Encoding, RawEvent};
use crate::pulse::{self, note_clocks};
use crate::session_end::{RestartReason, SessionEnd};
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::Obstacle;
use postrider_core::lsn::Lsn;
use postrider_core::pgoutput::{DecodeError, Message, PgTime, decode};
use postrider_core::row::{Layout, Row};
use postrider_core::transaction::Position;

/// How often the progress is stored. This also shows whether Postgres still answers: a pass that
/// gets no answer ends before its lease does, and its producers with it.
pub(crate) const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How often the progress is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// Rows between two points from which a later attempt can continue.
const MARK_EVERY: u64 = 100;

/// How publishing a table ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableEnd {
    /// All are published.
    Done,
    /// A stop was requested; the progress is stored.
    StopRequested,
}

/// How many rows of the snapshot come before: what the ack tracker counts here, where there are no
/// positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowCount(u64);

impl RowCount {
    pub(crate) const ZERO: Self = RowCount(0);
}

/// Publishes rows, table by table.
pub(crate) struct BackfillLoop<'a, S> {
    out: Outgoing<'a, S, RowCount>,
    vitals: &'a Vitals,
    starts_at: Lsn,
    /// See [`Attempt::change_lsn`].
    change_lsn: Lsn,
    /// How long rows in flight may take once a stop was requested.
    grace: Duration,
    /// A row that waits for room.
    held: Option<RawEvent>,
    /// Rows handed over for publishing, of all tables.
    count: u64,
    /// Points from which a later attempt can continue: the number of rows up to there, and the
    /// value of the order.
    marks: VecDeque<(u64, Option<i64>)>,
    table: Progress,
    waiting: Waiting,
    /// By how much the server's clock is ahead of this machine's.
    server_ahead_micros: i64,
}

/// How far a table is published.
struct Progress {
    name: String,
    layout: Option<Arc<Layout>>,
    estimate: i64,
    /// Rows published by earlier attempts.
    before: i64,
    /// Rows handed over before this table.
    began: u64,
    /// Each row has a leading value of its own.
    is_unique: bool,
    /// The leading value of the last row.
    leading: Option<i64>,
    /// All rows up to this value were handed over.
    complete: Option<i64>,
    /// All rows are published up to this point: their number, and the value of the order.
    reached: (u64, Option<i64>),
    logged_at: Instant,
}

impl Progress {
    /// Rows with the same value are complete when a row with a higher value arrives.
    fn hand_out(&mut self, leading: Option<i64>) {
        if self.is_unique {
            self.complete = leading.or(self.complete);
        } else if self.leading < leading {
            self.complete = self.leading;
        }
        self.leading = leading;
    }
}

impl<'a, S: Sink> BackfillLoop<'a, S> {
    pub(crate) fn new(
        out: Outgoing<'a, S, RowCount>,
        vitals: &'a Vitals,
        (starts_at, change_lsn): (Lsn, Lsn),
        grace: Duration,
    ) -> Self {
        let now = Instant::now();
        let table = Progress {
            name: String::new(),
            layout: None,
            estimate: 0,
            before: 0,
            began: 0,
            is_unique: false,
            leading: None,
            complete: None,
            reached: (0, None),
            logged_at: now,
        };
        BackfillLoop {
            out,
            vitals,
            starts_at,
            change_lsn,
            grace,
            held: None,
            count: 0,
            marks: VecDeque::new(),
            table,
            waiting: Waiting::new(now),
            server_ahead_micros: 0,
        }
    }

    /// How many rows were handed over.
    pub(crate) fn rows(&self) -> u64 {
        self.count
    }

    pub(crate) fn begin_table(
        &mut self,
        name: String,
        before: i64,
        estimate: i64,
        is_unique: bool,
    ) {
        self.table = Progress {
            name,
            layout: None,
            estimate,
            before,
            began: self.count,
            is_unique,
            leading: None,
            complete: None,
            reached: (self.count, None),
            logged_at: Instant::now(),
        };
    }

    /// Publishes the rows of a table, and stores the progress.
    pub(crate) async fn publish(
        &mut self,
        reader: &mut SnapshotReader,
        number: usize,
        mut rows: Rows,
        shutdown: &mut Shutdown,
    ) -> Result<TableEnd, SessionEnd> {
        self.table.layout = reader.table(number).map(|(_, table, _)| Arc::clone(&table.layout));
        self.compare_clocks(reader).await?;
        let mut stop_at = None;
        let mut save_at = Instant::now() + SAVE_EVERY;
        loop {
            let reading = stop_at.is_none();
            self.pump(&mut rows, reading)?;
            let now = Instant::now();
            let is_drained = self.out.is_drained();
            let is_over = rows.is_drained() && self.held.is_none();
            if is_over && self.out.acks.in_flight_events() == 0 {
                self.save(reader, number, true).await?;
                return Ok(TableEnd::Done);
            }
            if stop_at.is_some_and(|at| is_drained || now >= at) {
                self.save(reader, number, false).await?;
                return Ok(TableEnd::StopRequested);
            }
            if now >= save_at {
                save_at = now + SAVE_EVERY;
                self.check(now)?;
                self.compare_clocks(reader).await?;
                self.save(reader, number, false).await?;
            }
            let wake_at = stop_at.map_or(save_at, |at: Instant| at.min(save_at));
            let fills =
                reading && !rows.is_received() && self.held.is_none() && self.out.has_room();
            tokio::select! {
                biased;
                () = stop_requested(shutdown, reading) => {
                    stop_at = Some(if reading { now + self.grace } else { now });
                }
                error = reader.control_guard.ended() => {
                    let reason = error.map(|error| crate::postgres::describe(&error));
                    let text = reason.unwrap_or("Postgres closed the connection".to_owned());
                    return Err(SessionEnd::restart(RestartReason::Postgres, text));
                }
                () = self.out.sink.receive(&mut self.out.reports) => self.settle()?,
                event = parking::session::next_event(&mut self.out.parking) => { self.out.apply(event)?; }
                () = tokio::time::sleep_until(wake_at.into()) => {}
                filled = rows.fill(), if fills => {
                    filled.map_err(|error| SessionEnd::reading_rows(&self.table.name, error))?;
                }
            }
        }
    }

    /// Awaits work of Postgres, and reports meanwhile whether a broker can be reached. `doing`
    /// describes the work to people.
    pub(crate) async fn beside<T>(
        &mut self,
        doing: &str,
        work: impl Future<Output = Result<T, SessionEnd>>,
    ) -> Result<T, SessionEnd> {
        tokio::pin!(work);
        loop {
            let (state, reason) = match self.out.sink.obstacle() {
                Some(Obstacle { text, certain: true }) => (State::BlockedOnBroker, text),
                _ => (State::Snapshotting, doing.to_owned()),
            };
            self.vitals.set_state(state, Some(reason));
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.out.sink.receive(&mut self.out.reports) => self.settle()?,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn compare_clocks(&mut self, reader: &SnapshotReader) -> Result<(), SessionEnd> {
        let asking = clock::server_ahead_micros(&reader.control, clock::QUESTION);
        let ahead = pulse::answer(asking).await?;
        if let Some(ahead) = ahead {
            self.server_ahead_micros = ahead;
            note_clocks(ahead, self.vitals);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SessionEnd> {
        if self.out.settle()? > 0 {
            self.waiting.note_acknowledged(Instant::now());
        }
        Ok(())
    }

    /// Hands over the rows that have arrived, while there is room.
    fn pump(&mut self, rows: &mut Rows, reading: bool) -> Result<(), SessionEnd> {
        self.out.begin_turn(self.server_ahead_micros);
        self.out.retry_parked()?;
        self.out.retry_topics(!reading)?;
        if let Some(held) = self.held.take_if(|_| self.out.has_room())
            && let Sent::NotYet(held) = held.read(|row| self.out.publish(row, held.clone()))?
        {
            self.held = Some(held);
        }
        while reading && self.held.is_none() && self.out.has_room() {
            let Some(row) = rows.pop()? else { break };
            self.hand_out(&row)?;
        }
        if rows.is_drained() && self.held.is_none() {
            self.mark();
        }
        Ok(())
    }

    fn hand_out(&mut self, row: &TableRow) -> Result<(), SessionEnd> {
        let Some(layout) = self.table.layout.clone() else { return Ok(()) };
        let Message::Insert { row: tuple, .. } = decode(&row.message)? else {
            return Err(DecodeError::NotAnInsert.into());
        };
        if self.count.is_multiple_of(MARK_EVERY) {
            self.mark();
        }
        let position = Position {
            commit_lsn: self.starts_at,
            change_lsn: self.change_lsn,
            ordinal: self.count,
            in_transaction: self.count,
        };
        let created_at = row.created_at.unwrap_or(PgTime::from_unix_micros(unix_micros()));
        let read = Row::read(&layout, &tuple, position, created_at)?;
        let source = RawEvent::of(&read, Encoding::Insert, row.message.clone(), &layout);
        if let Sent::NotYet(source) = self.out.publish(&read, source)? {
            self.held = Some(source);
        }
        self.count += 1;
        self.table.hand_out(row.leading);
        Ok(())
    }

    /// Marks a point from which a later attempt can continue.
    fn mark(&mut self) {
        let is_new = self.marks.back().is_none_or(|(count, _)| *count < self.count);
        if is_new && self.count > self.table.reached.0 {
            self.out.acks.commit(RowCount(self.count));
            self.marks.push_back((self.count, self.table.complete));
        }
    }

    async fn save(
        &mut self,
        reader: &mut SnapshotReader,
        number: usize,
        is_done: bool,
    ) -> Result<(), SessionEnd> {
        let RowCount(done) = self.out.watermark();
        while let Some(mark) = self.marks.front().filter(|(count, _)| *count <= done) {
            self.table.reached = *mark;
            self.marks.pop_front();
        }
        let (count, reached) = self.table.reached;
        let rows = self.table.before + (count - self.table.began).cast_signed();
        self.log_progress(rows);
        pulse::answer(reader.save(number, reached, rows, is_done)).await
    }

    fn log_progress(&mut self, rows: i64) {
        let Progress { name, estimate, logged_at, .. } = &mut self.table;
        let of = if *estimate > rows { format!(" of about {estimate}") } else { String::new() };
        let text = format!("{name}: {rows}{of} rows published");
        if logged_at.elapsed() >= LOG_EVERY {
            *logged_at = Instant::now();
            tracing::info!("{text}");
        }
        let held = usize::from(self.held.is_some());
        let trouble = self.waiting.trouble(&self.out, held, Instant::now());
        let (state, reason) = trouble.unwrap_or((State::Snapshotting, text));
        self.vitals.set_state(state, Some(reason));
        let acks = &self.out.acks;
        self.vitals.set_in_flight(acks.in_flight_events(), acks.in_flight_bytes(), 0.0);
    }

    fn check(&mut self, now: Instant) -> Result<(), SessionEnd> {
        if let Some(parking) = &mut self.out.parking {
            parking.tick(self.vitals, now)?;
        }
        if !self.out.is_waiting() && self.held.is_none() {
            self.waiting.note_acknowledged(now);
        }
        self.waiting.check(&self.out, now)
    }
}

/// Returns when a stop is requested or, if that is already the case, when an immediate one is.
async fn stop_requested(shutdown: &mut Shutdown, reading: bool) {
    if reading { shutdown.draining().await } else { shutdown.now().await }
}
