//! One batch of rows on its way through the sink.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::record::record;
use super::{RowResult, SendOptions, SendResults};
use crate::clock;
use crate::parking::store::ParkedRow;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::{Broken, NotTaken, Obstacle, Outcome, Report, Ticket};
use postrider_core::order::OrderKey;

/// How often to check whether anything can be sent at all.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// A refusal of several records moves one topic to the careful lane, so there can't be many more
/// restarts than topics.
const EXTRA_RESTARTS: usize = 2;

/// Sends the rows. When draining is asked for, no more is sent, and what is in flight is awaited.
pub(crate) async fn send_rows<S: Sink>(
    sink: &mut S,
    rows: &[ParkedRow],
    options: &SendOptions,
    stop: &mut Shutdown,
) -> SendResults {
    let mut batch = Batch::new(rows, options);
    let interrupted_by = batch.run(sink, stop).await.err();
    let is_sink_ready = interrupted_by.is_none() || sink.restart().await.is_ok();
    SendResults { results: batch.into_results(), interrupted_by, is_sink_ready }
}

struct Batch<'a> {
    rows: &'a [ParkedRow],
    options: &'a SendOptions,
    results: Vec<Option<RowResult>>,
    /// By topic: the indexes of rows that are not sent yet, in order.
    queues: Vec<VecDeque<usize>>,
    /// By topic: the index of its queue.
    topics: HashMap<&'a str, usize>,
    in_flight: BTreeSet<usize>,
    /// By key: the first row that failed.
    failed: HashMap<OrderKey, usize>,
    restarts_left: usize,
    /// No more is sent.
    is_draining: bool,
}

impl<'a> Batch<'a> {
    fn new(rows: &'a [ParkedRow], options: &'a SendOptions) -> Self {
        let mut batch = Batch {
            rows,
            options,
            results: rows.iter().map(|_| None).collect(),
            queues: Vec::new(),
            topics: HashMap::new(),
            in_flight: BTreeSet::new(),
            failed: HashMap::new(),
            restarts_left: 0,
            is_draining: false,
        };
        for (index, row) in rows.iter().enumerate() {
            if let Some(queue) = batch.queue_of(&row.topic) {
                queue.push_back(index);
            }
        }
        batch.restarts_left = batch.queues.len() + EXTRA_RESTARTS;
        batch
    }

    fn queue_of(&mut self, topic: &'a str) -> Option<&mut VecDeque<usize>> {
        let queue = *self.topics.entry(topic).or_insert_with(|| {
            self.queues.push(VecDeque::new());
            self.queues.len() - 1
        });
        self.queues.get_mut(queue)
    }

    async fn run<S: Sink>(&mut self, sink: &mut S, stop: &mut Shutdown) -> Result<(), Broken> {
        let mut check = interval(CHECK_EVERY);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        check.reset();
        let mut at_once = stop.clone();
        let mut reports = Vec::new();
        loop {
            // Also after a pause of the whole process: another instance may have the rows by now.
            if Instant::now() >= self.options.deadline {
                return Err(no_answer(sink.obstacle()));
            }
            if !self.options.waits_for_topics {
                sink.hurry();
            }
            let mut broken = self.send(sink).err();
            if broken.is_none() {
                if self.in_flight.is_empty() && self.queues.iter().all(VecDeque::is_empty) {
                    return Ok(());
                }
                tokio::select! {
                    biased;
                    () = at_once.now() => return Err(Broken::new("asked to stop immediately")),
                    () = stop.draining(), if !self.is_draining => {
                        self.is_draining = true;
                        self.queues.iter_mut().for_each(VecDeque::clear);
                    }
                    () = sink.receive(&mut reports) => broken = self.settle(&mut reports).err(),
                    () = sleep_until(self.options.deadline) => {}
                    _ = check.tick() => {
                        if let Some(Obstacle { text, certain: true }) = sink.obstacle() {
                            return Err(Broken::new(text));
                        }
                    }
                }
            }
            if let Some(broken) = broken {
                if !broken.refused || self.restarts_left == 0 || self.is_draining {
                    return Err(broken);
                }
                self.restarts_left -= 1;
                sink.restart().await?;
                self.requeue_in_flight();
            }
        }
    }

    /// Hands over to the sink what it accepts now.
    fn send<S: Sink>(&mut self, sink: &mut S) -> Result<(), Broken> {
        for queue in 0..self.queues.len() {
            while let Some(index) = self.front(queue) {
                if !self.offer(sink, index)? {
                    break;
                }
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.pop_front();
                }
            }
        }
        Ok(())
    }

    fn front(&self, queue: usize) -> Option<usize> {
        self.queues.get(queue).and_then(VecDeque::front).copied()
    }

    /// Whether the row is handled: in flight, or with a result.
    fn offer<S: Sink>(&mut self, sink: &mut S, index: usize) -> Result<bool, Broken> {
        let rows = self.rows;
        let Some(row) = rows.get(index) else { return Ok(true) };
        if self.is_held(index, row) {
            self.set(index, RowResult::NotTried);
            return Ok(true);
        }
        let Some(destination) = sink.destination(&row.topic) else { return Ok(false) };
        let now = clock::now(self.options.server_ahead_micros);
        let record = match record(row, destination, self.options, now) {
            Ok(record) => record,
            Err(refusal) => {
                self.fail(index, RowResult::Reject(refusal));
                return Ok(true);
            }
        };
        match sink.enqueue(&record, Ticket::from_number(index as u64)) {
            Ok(()) => drop(self.in_flight.insert(index)),
            Err(NotTaken::Busy | NotTaken::TopicBusy) => return Ok(false),
            Err(NotTaken::Unreachable) if self.options.waits_for_topics => return Ok(false),
            Err(NotTaken::Unreachable) => self.fail(index, RowResult::Postponed),
            Err(NotTaken::Retry(refusal)) => self.fail(index, RowResult::Retry(refusal)),
            Err(NotTaken::Reject(refusal)) => self.fail(index, RowResult::Reject(refusal)),
            Err(NotTaken::Broken(broken)) => return Err(broken),
        }
        Ok(true)
    }

    /// Processes all reports, also if one of them means that the rest is unknown.
    fn settle(&mut self, reports: &mut Vec<Report>) -> Result<(), Broken> {
        let mut result = Ok(());
        let mut blocked = BTreeSet::new();
        for report in reports.drain(..) {
            match report {
                Report::Settled(ticket, outcome) => {
                    let index = usize::try_from(ticket.number()).unwrap_or(usize::MAX);
                    if self.in_flight.remove(&index) {
                        match outcome {
                            Outcome::Ok => self.set(index, RowResult::Delivered),
                            Outcome::Blocked => drop(blocked.insert(index)),
                            Outcome::Retry(refusal) => self.fail(index, RowResult::Retry(refusal)),
                            Outcome::Reject(refusal) => {
                                self.fail(index, RowResult::Reject(refusal))
                            }
                        }
                    }
                }
                // A refusal decides how to continue, whatever else was reported.
                Report::Broken(broken) => match &result {
                    Err(Broken { refused: true, .. }) => {}
                    _ => result = Err(broken),
                },
            }
        }
        self.requeue(blocked);
        result
    }

    /// The sink returns records that follow a refused one of their key. Whether they have to wait
    /// is decided here: by `offer`, once all refusals are noted.
    fn requeue(&mut self, indexes: BTreeSet<usize>) {
        let (rows, is_draining) = (self.rows, self.is_draining);
        for index in indexes.into_iter().rev() {
            if let Some(row) = rows.get(index)
                && !is_draining
                && let Some(queue) = self.queue_of(&row.topic)
            {
                queue.push_front(index);
            }
        }
    }

    /// Rows that were in flight come before rows that wait.
    fn requeue_in_flight(&mut self) {
        let in_flight = std::mem::take(&mut self.in_flight);
        self.requeue(in_flight);
    }

    fn into_results(mut self) -> Vec<RowResult> {
        self.reset_followers();
        self.results.into_iter().map(|result| result.unwrap_or(RowResult::NotTried)).collect()
    }

    /// A topic that accepts nothing refuses all its records at once. Those after the first of their
    /// key would not have been sent, so this does not count as their attempt.
    fn reset_followers(&mut self) {
        for (index, row) in self.rows.iter().enumerate() {
            if matches!(self.results.get(index), Some(Some(RowResult::Retry(_))))
                && self.is_held(index, row)
            {
                self.set(index, RowResult::NotTried);
            }
        }
    }

    fn is_held(&self, index: usize, row: &ParkedRow) -> bool {
        if self.failed.is_empty() {
            return false;
        }
        let failed = row.order_key().and_then(|key| self.failed.get(&key));
        failed.is_some_and(|failed| *failed < index)
    }

    fn fail(&mut self, index: usize, result: RowResult) {
        let rows = self.rows;
        if let Some(row) = rows.get(index)
            && self.options.keep_order
            && let Some(key) = row.order_key()
        {
            let first = self.failed.entry(key).or_insert(index);
            *first = index.min(*first);
        }
        self.set(index, result);
    }

    fn set(&mut self, index: usize, result: RowResult) {
        if let Some(known) = self.results.get_mut(index) {
            *known = Some(result);
        }
    }
}

fn no_answer(obstacle: Option<Obstacle>) -> Broken {
    let text = "the destination did not answer in time";
    Broken::new(match obstacle {
        Some(obstacle) => format!("{text}: {}", obstacle.text),
        None => text.to_owned(),
    })
}
