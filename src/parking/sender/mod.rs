//! Sends claimed rows through a sink, and returns what became of each.
//!
//! Rows of one topic are sent in the given order; a topic that has to wait does not delay the
//! others. After a row that fails, nothing of its key is sent: rows that only waited for it count
//! as not tried, whatever the sink reports about them. Before rows that may be in flight are called
//! not tried, the sink is restarted: they must not arrive after another instance has sent them and
//! the rows after them.

mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::record::record;
use super::store::ParkedRow;
use crate::clock;
use crate::shutdown::Shutdown;
use crate::sink::Sink;
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Broken, NotTaken, Obstacle, Report};
use postrider_core::delivery::{Outcome, Refusal};
use postrider_core::parking::OrderKey;

/// How often to look whether anything can be sent at all.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A refusal of several records moves one topic to the careful lane, so restarts can't be many more
/// than topics.
const SPARE_RESTARTS: usize = 2;

/// How rows are sent.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// They carry the header that marks a replay.
    pub(crate) replayed: bool,
    /// Which timestamp they carry.
    pub(crate) timestamp: Timestamp,
    /// After a row that fails, nothing of its key is sent.
    pub(crate) keep_order: bool,
    /// A missing topic is given time to appear.
    pub(crate) patient: bool,
    /// By how much the database server's clock is ahead of this machine's.
    pub(crate) server_ahead_micros: i64,
    /// When to give up waiting for answers.
    pub(crate) deadline: Instant,
}

/// Which timestamp a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timestamp {
    /// The time it is sent.
    Now,
    /// The time of the commit, if the topic accepts it.
    Original,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is durable at its destination.
    Delivered,
    /// It was refused for a reason that can change.
    Retry(Refusal),
    /// It was refused for its content.
    Reject(Refusal),
    /// Nothing is known about it: it was not sent, or the connection failed.
    NotTried,
}

/// What became of all rows.
#[derive(Debug)]
pub(crate) struct Dispatched {
    /// One for each row, in their order.
    pub(crate) results: Vec<Sent>,
    /// What prevented sending, if anything did.
    pub(crate) trouble: Option<Broken>,
    /// Whether the sink is ready for the next batch; if not, restart it first.
    pub(crate) open: bool,
}

/// Sends the rows. When draining is asked for, no more is sent, and what is in flight is awaited.
pub(crate) async fn dispatch<S: Sink>(
    sink: &mut S,
    rows: &[ParkedRow],
    options: &Options,
    stop: &mut Shutdown,
) -> Dispatched {
    let mut batch = Batch::new(rows, options);
    let trouble = batch.run(sink, stop).await.err();
    let open = trouble.is_none() || sink.restart().await.is_ok();
    batch.spare_followers();
    let results = batch.results.into_iter().map(|sent| sent.unwrap_or(Sent::NotTried)).collect();
    Dispatched { results, trouble, open }
}

struct Batch<'a> {
    rows: &'a [ParkedRow],
    options: &'a Options,
    results: Vec<Option<Sent>>,
    /// By topic: the places of rows that are not sent yet, in order.
    waiting: Vec<VecDeque<usize>>,
    topics: HashMap<&'a str, usize>,
    in_flight: BTreeSet<usize>,
    /// By key: the first row that failed.
    failed: HashMap<OrderKey, usize>,
    restarts_left: usize,
    /// No more is sent.
    draining: bool,
}

impl<'a> Batch<'a> {
    fn new(rows: &'a [ParkedRow], options: &'a Options) -> Self {
        let mut batch = Batch {
            rows,
            options,
            results: rows.iter().map(|_| None).collect(),
            waiting: Vec::new(),
            topics: HashMap::new(),
            in_flight: BTreeSet::new(),
            failed: HashMap::new(),
            restarts_left: 0,
            draining: false,
        };
        for (place, row) in rows.iter().enumerate() {
            if let Some(queue) = batch.queue(&row.topic) {
                queue.push_back(place);
            }
        }
        batch.restarts_left = batch.waiting.len() + SPARE_RESTARTS;
        batch
    }

    fn queue(&mut self, topic: &'a str) -> Option<&mut VecDeque<usize>> {
        let number = *self.topics.entry(topic).or_insert_with(|| {
            self.waiting.push(VecDeque::new());
            self.waiting.len() - 1
        });
        self.waiting.get_mut(number)
    }

    async fn run<S: Sink>(&mut self, sink: &mut S, stop: &mut Shutdown) -> Result<(), Broken> {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.reset();
        let mut at_once = stop.clone();
        let mut reports = Vec::new();
        loop {
            // Also after a pause of the whole process: another instance may have the rows by now.
            if Instant::now() >= self.options.deadline {
                return Err(no_answer(sink.obstacle()));
            }
            if !self.options.patient {
                sink.hurry();
            }
            let mut broken = self.send(sink).err();
            if broken.is_none() {
                if self.in_flight.is_empty() && self.waiting.iter().all(VecDeque::is_empty) {
                    return Ok(());
                }
                tokio::select! {
                    biased;
                    () = at_once.now() => return Err(Broken::new("asked to stop immediately")),
                    () = stop.draining(), if !self.draining => {
                        self.draining = true;
                        self.waiting.iter_mut().for_each(VecDeque::clear);
                    }
                    () = sink.receive(&mut reports) => broken = self.settle(&mut reports).err(),
                    () = sleep_until(self.options.deadline) => {}
                    _ = look.tick() => {
                        if let Some(Obstacle { text, certain: true }) = sink.obstacle() {
                            return Err(Broken::new(text));
                        }
                    }
                }
            }
            if let Some(broken) = broken {
                if !broken.refused || self.restarts_left == 0 || self.draining {
                    return Err(broken);
                }
                self.restarts_left -= 1;
                sink.restart().await?;
                self.send_again();
            }
        }
    }

    /// Hands over to the sink what it accepts now.
    fn send<S: Sink>(&mut self, sink: &mut S) -> Result<(), Broken> {
        for number in 0..self.waiting.len() {
            while let Some(place) = self.front(number) {
                if !self.offer(sink, place)? {
                    break;
                }
                if let Some(queue) = self.waiting.get_mut(number) {
                    queue.pop_front();
                }
            }
        }
        Ok(())
    }

    fn front(&self, number: usize) -> Option<usize> {
        self.waiting.get(number).and_then(VecDeque::front).copied()
    }

    /// Whether the row is handled: in flight, or with a result.
    fn offer<S: Sink>(&mut self, sink: &mut S, place: usize) -> Result<bool, Broken> {
        let rows = self.rows;
        let Some(row) = rows.get(place) else { return Ok(true) };
        if self.is_held(place, row) {
            self.set(place, Sent::NotTried);
            return Ok(true);
        }
        let Some(destination) = sink.destination(&row.topic) else { return Ok(false) };
        let now = clock::now(self.options.server_ahead_micros);
        let record = match record(row, destination, self.options, now) {
            Ok(record) => record,
            Err(refusal) => {
                self.fail(place, Sent::Reject(refusal));
                return Ok(true);
            }
        };
        match sink.enqueue(&record, Ticket::from_number(place as u64)) {
            Ok(()) => drop(self.in_flight.insert(place)),
            Err(NotTaken::Busy | NotTaken::TopicBusy) => return Ok(false),
            Err(NotTaken::Retry(refusal)) => self.fail(place, Sent::Retry(refusal)),
            Err(NotTaken::Reject(refusal)) => self.fail(place, Sent::Reject(refusal)),
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
                    let place = usize::try_from(ticket.number()).unwrap_or(usize::MAX);
                    if self.in_flight.remove(&place) {
                        match outcome {
                            Outcome::Ok => self.set(place, Sent::Delivered),
                            Outcome::Blocked => drop(blocked.insert(place)),
                            Outcome::Retry(refusal) => self.fail(place, Sent::Retry(refusal)),
                            Outcome::Reject(refusal) => self.fail(place, Sent::Reject(refusal)),
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
        self.come_back(blocked);
        result
    }

    /// The sink returns records that follow a refused one of their key. Whether they have to wait
    /// is decided here: by `offer`, once all refusals are noted.
    fn come_back(&mut self, places: BTreeSet<usize>) {
        let (rows, draining) = (self.rows, self.draining);
        for place in places.into_iter().rev() {
            if let Some(row) = rows.get(place)
                && !draining
                && let Some(queue) = self.queue(&row.topic)
            {
                queue.push_front(place);
            }
        }
    }

    /// Rows that were in flight come before rows that wait.
    fn send_again(&mut self) {
        let in_flight = std::mem::take(&mut self.in_flight);
        self.come_back(in_flight);
    }

    /// A topic that accepts nothing refuses all its records at once. Those after the first of their
    /// key would not have been sent, so this does not count as their attempt.
    fn spare_followers(&mut self) {
        for (place, row) in self.rows.iter().enumerate() {
            if matches!(self.results.get(place), Some(Some(Sent::Retry(_))))
                && self.is_held(place, row)
            {
                self.set(place, Sent::NotTried);
            }
        }
    }

    fn is_held(&self, place: usize, row: &ParkedRow) -> bool {
        if self.failed.is_empty() {
            return false;
        }
        let failed = row.order_key().and_then(|key| self.failed.get(&key));
        failed.is_some_and(|failed| *failed < place)
    }

    fn fail(&mut self, place: usize, sent: Sent) {
        let rows = self.rows;
        if let Some(row) = rows.get(place)
            && self.options.keep_order
            && let Some(key) = row.order_key()
        {
            let first = self.failed.entry(key).or_insert(place);
            *first = place.min(*first);
        }
        self.set(place, sent);
    }

    fn set(&mut self, place: usize, sent: Sent) {
        if let Some(result) = self.results.get_mut(place) {
            *result = Some(sent);
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
