//! The careful lane: records sent so that a refusal speaks about exactly one of them.
//!
//! Each partition has a queue, or, where the whole topic keeps its order, the topic has one. Of it one
//! *group* is in flight at a time: records that keep no order with each other, so that whatever becomes
//! of them, nothing is reordered. A group that is acknowledged makes the next one larger; records of a
//! group that were refused are sent again one by one, before anything else of their partition, and only
//! then does a refusal count. What waits is a copy, bounded with everything in flight.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use super::lane::Lane;
use super::murmur2::partition_of;
use crate::ack::Ticket;
use crate::envelope::{COMMITTED_AT_HEADER, Header, Record, rfc3339};
use crate::sink::{Broken, NotTaken, Report};
use crate::undelivered::{Line, Outcome, Reason, Refusal};

/// Records of one group at the most.
const GROUP_MAX: usize = 64;
/// Bytes of one group at the most, where the topic's own limit is not known.
const GROUP_BYTES_MAX: usize = 64 * 1024;
/// The queue of a topic that keeps its order as a whole; no partition has this number.
const WHOLE_TOPIC: i32 = -1;

/// A record of its own.
struct Owned {
    topic: String,
    partition: i32,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp_ms: i64,
    line: Line,
    /// The present time when it was taken, for the case that the broker refuses that timestamp.
    again: Option<(i64, Instant)>,
    batch_bytes: usize,
}

/// Records of one queue that keep their order with each other.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Ordered {
    Key(Vec<u8>),
    Partition,
    Topic,
}

struct Waiting {
    ticket: Ticket,
    record: Owned,
    /// It was refused in company.
    alone: bool,
}

/// What is known of how a topic takes groups.
struct Pace {
    group_max: usize,
    /// What larger groups grow up to.
    ceiling: usize,
    /// The smallest record that was refused alone for its size: such are sent alone.
    too_large_bytes: Option<usize>,
    /// A timestamp was refused: what is still here gets the present time before it is sent.
    restamps: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { group_max: 1, ceiling: GROUP_MAX, too_large_bytes: None, restamps: false }
    }
}

impl Pace {
    fn went_well(&mut self) {
        self.ceiling = (self.ceiling + 1).min(GROUP_MAX);
        self.group_max = (self.group_max * 2).min(self.ceiling);
    }

    fn was_refused(&mut self, group: usize) {
        self.ceiling = (group / 2).max(1);
        self.group_max = 1;
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The group in flight, in order.
    group: Vec<Waiting>,
    group_size: usize,
    /// Records of the group that were refused.
    refused: Vec<Waiting>,
}

/// The queues of the topics that need care.
#[derive(Default)]
pub(super) struct Careful {
    queues: HashMap<String, HashMap<i32, Queue>>,
    paces: HashMap<String, Pace>,
    /// Where each ticket in flight belongs.
    flights: HashMap<Ticket, (String, i32)>,
}

impl Careful {
    /// Whether records of the topic are under way here.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.queues.contains_key(topic)
    }

    /// Takes a record and sends what can be sent.
    pub(super) fn enqueue(
        &mut self,
        lane: &Lane,
        record: &Record<'_>,
        ticket: Ticket,
        topic: TopicFacts,
    ) -> Result<(), NotTaken> {
        let partition = match (record.partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, topic.partitions),
            // Any will do.
            (None, None) => (ticket.number() % topic.partitions.max(1) as u64) as i32,
        };
        let waiting = Waiting { ticket, record: Owned::of(record, partition), alone: false };
        let queue = if record.line == Line::Topic { WHOLE_TOPIC } else { partition };
        let queues = self.queues.entry(record.topic.to_owned()).or_default();
        queues.entry(queue).or_default().waiting.push_back(waiting);
        self.send(lane, record.topic, queue, topic.batch_bytes_max).map_err(NotTaken::Broken)
    }

    /// What the lane said about a record: a report, unless it has to be asked again.
    pub(super) fn settled(
        &mut self,
        lane: &Lane,
        ticket: Ticket,
        outcome: Outcome,
        facts: impl Fn(&str) -> TopicFacts,
        reports: &mut Vec<Report>,
    ) -> Result<(), Broken> {
        let Some((topic, partition)) = self.flights.remove(&ticket) else {
            return Ok(());
        };
        let queues = self.queues.entry(topic.clone()).or_default();
        let queue = queues.entry(partition).or_default();
        let pace = self.paces.entry(topic.clone()).or_default();
        let index = queue.group.iter().position(|it| it.ticket == ticket);
        let taken = index.map(|index| queue.group.remove(index));
        match (outcome, taken) {
            (Outcome::Ok, _) => {
                if queue.group.is_empty() && queue.refused.is_empty() {
                    pace.went_well();
                }
                reports.push(Report::Settled(ticket, Outcome::Ok));
            }
            (_, Some(mut taken)) if queue.group_size > 1 => {
                taken.alone = true;
                queue.refused.push(taken);
            }
            // Once more with the present time, before it is called dead.
            (outcome, Some(mut taken))
                if is_about_a_stamp(&outcome) && taken.record.again.is_some() =>
            {
                taken.record.restamp();
                pace.restamps = true;
                taken.alone = true;
                queue.refused.push(taken);
            }
            (outcome, taken) => {
                if let (Outcome::Reject(refusal), Some(taken)) = (&outcome, &taken)
                    && refusal.reason == Reason::TOO_LARGE
                {
                    let bytes = taken.record.batch_bytes;
                    pace.too_large_bytes =
                        Some(pace.too_large_bytes.map_or(bytes, |known| known.min(bytes)));
                }
                reports.push(Report::Settled(ticket, outcome.clone()));
                if let Some(taken) = taken {
                    give_back_followers(queue, &taken.record, reports);
                }
                if topic_is_at_fault(&outcome) {
                    self.give_up(&topic, &outcome, reports);
                    return Ok(());
                }
            }
        }
        if queue.group.is_empty() {
            if !queue.refused.is_empty() {
                pace.was_refused(queue.group_size);
                // In their order, before everything else of the partition.
                queue.refused.sort_by_key(|it| it.ticket);
                while let Some(again) = queue.refused.pop() {
                    queue.waiting.push_front(again);
                }
            }
            self.send(lane, &topic, partition, facts(&topic).batch_bytes_max)?;
        }
        Ok(())
    }

    /// What waits for a topic that takes nothing need not be sent. What is in flight will say so
    /// itself.
    fn give_up(&mut self, topic: &str, outcome: &Outcome, reports: &mut Vec<Report>) {
        let Some(queues) = self.queues.get_mut(topic) else { return };
        for queue in queues.values_mut() {
            reports.extend(given_up(queue, outcome));
        }
        self.forget_empty(topic);
    }

    /// Sends the next group of a partition, if none is in flight.
    fn send(
        &mut self,
        lane: &Lane,
        topic: &str,
        partition: i32,
        limit: Option<usize>,
    ) -> Result<(), Broken> {
        let pace = self.paces.entry(topic.to_owned()).or_default();
        if let Some(queue) = self.queues.get_mut(topic).and_then(|it| it.get_mut(&partition))
            && queue.group.is_empty()
            && queue.refused.is_empty()
        {
            queue.group = next_group(&mut queue.waiting, pace, limit);
            queue.group_size = queue.group.len();
            for waiting in &mut queue.group {
                if pace.restamps {
                    waiting.record.restamp();
                }
                self.flights.insert(waiting.ticket, (topic.to_owned(), partition));
                // The client's own queue has room for all that the relay lets be in flight.
                lane.enqueue(&waiting.record.as_record(), waiting.ticket)
                    .map_err(|not_taken| lost_room(&not_taken))?;
            }
        }
        self.forget_empty(topic);
        Ok(())
    }

    fn forget_empty(&mut self, topic: &str) {
        if let Some(queues) = self.queues.get_mut(topic) {
            queues.retain(|_, queue| {
                !queue.waiting.is_empty() || !queue.group.is_empty() || !queue.refused.is_empty()
            });
            if queues.is_empty() {
                self.queues.remove(topic);
            }
        }
    }
}

/// What a topic is known to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopicFacts {
    pub(super) partitions: usize,
    pub(super) batch_bytes_max: Option<usize>,
}

/// Records of a refused one's key must not be written before it is decided what becomes of it.
fn give_back_followers(queue: &mut Queue, refused: &Owned, reports: &mut Vec<Report>) {
    let (behind, others) = std::mem::take(&mut queue.waiting)
        .into_iter()
        .partition(|it| refused.keeps_order_with(&it.record));
    queue.waiting = others;
    let behind: VecDeque<Waiting> = behind;
    reports.extend(behind.into_iter().map(|it| Report::Settled(it.ticket, is_behind())));
}

fn is_behind() -> Outcome {
    let detail = "an earlier record of its key was refused".to_owned();
    Outcome::Retry(Refusal { reason: Reason::BEHIND, detail })
}

/// The outcome speaks about the first of each key; the others only wait for it. Who waits for a
/// record that is under way stays: nothing is said about a follower before its first.
fn given_up(queue: &mut Queue, outcome: &Outcome) -> Vec<Report> {
    let under_way = queue.group.iter().chain(&queue.refused);
    let under_way: HashSet<_> = under_way.filter_map(|it| it.record.ordered()).collect();
    let (staying, leaving): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut queue.waiting)
        .into_iter()
        .partition(|it| it.record.ordered().is_some_and(|key| under_way.contains(&key)));
    queue.waiting = staying;
    let mut seen = HashSet::new();
    let tell = |it: Waiting| {
        let first = it.record.ordered().is_none_or(|key| seen.insert(key));
        Report::Settled(it.ticket, if first { outcome.clone() } else { is_behind() })
    };
    leaving.into_iter().map(tell).collect()
}

fn is_about_a_stamp(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Reject(refusal) if refusal.reason == Reason::TIMESTAMP)
}

/// Whether the refusal of one record says that none would be taken.
fn topic_is_at_fault(outcome: &Outcome) -> bool {
    let Outcome::Retry(refusal) = outcome else { return false };
    [Reason::TOPIC_MISSING, Reason::TOPIC_DENIED].contains(&refusal.reason)
}

fn lost_room(not_taken: &NotTaken) -> Broken {
    match not_taken {
        NotTaken::Broken(broken) => broken.clone(),
        _ => Broken::new("the Kafka client did not take a record it has room for"),
    }
}

/// From the front: records of different keys, within the bounds. One that is to be alone is.
fn next_group(waiting: &mut VecDeque<Waiting>, pace: &Pace, limit: Option<usize>) -> Vec<Waiting> {
    let bytes_max = limit.unwrap_or(GROUP_BYTES_MAX).min(GROUP_BYTES_MAX);
    let alone = |it: &Waiting| {
        it.alone || pace.too_large_bytes.is_some_and(|bytes| it.record.batch_bytes >= bytes)
    };
    let mut group: Vec<Waiting> = Vec::new();
    let mut bytes = 0;
    while let Some(next) = waiting.front() {
        let fits = group.len() < pace.group_max
            && bytes + next.record.batch_bytes <= bytes_max
            && !alone(next)
            && !group.iter().any(|it| it.record.keeps_order_with(&next.record));
        if !group.is_empty() && !fits {
            break;
        }
        let is_alone = alone(next);
        bytes += next.record.batch_bytes;
        group.extend(waiting.pop_front());
        if is_alone {
            break;
        }
    }
    group
}

impl Owned {
    fn of(record: &Record<'_>, partition: i32) -> Self {
        let headers = record.headers.iter();
        Owned {
            topic: record.topic.to_owned(),
            partition,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.as_ref().map(|value| value.to_vec()),
            headers: headers
                .map(|it| (it.name.to_string(), it.value.as_ref().map(|value| value.to_vec())))
                .collect(),
            timestamp_ms: record.timestamp_ms,
            line: record.line,
            again: Some((record.again_ms, Instant::now())),
            batch_bytes: record.batch_bytes(),
        }
    }

    /// Which records of its queue it keeps its order with; none: it has no order to keep.
    fn ordered(&self) -> Option<Ordered> {
        match self.line {
            Line::Key => self.key.clone().map(Ordered::Key),
            Line::Partition => Some(Ordered::Partition),
            Line::Topic => Some(Ordered::Topic),
        }
    }

    /// The same without a copy, of two records of one queue.
    fn keeps_order_with(&self, other: &Owned) -> bool {
        self.line == other.line
            && match self.line {
                Line::Key => self.key.is_some() && self.key == other.key,
                Line::Partition | Line::Topic => true,
            }
    }

    /// Gives it the present time, once.
    fn restamp(&mut self) {
        let Some((then_ms, at)) = self.again.take() else { return };
        let elapsed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        if self.headers.iter().all(|(name, _)| name != COMMITTED_AT_HEADER) {
            let committed_at = rfc3339(self.timestamp_ms.saturating_mul(1000));
            self.headers.push((COMMITTED_AT_HEADER.to_owned(), Some(committed_at.into_bytes())));
        }
        self.timestamp_ms = then_ms.saturating_add(elapsed_ms);
    }

    fn as_record(&self) -> Record<'_> {
        let headers = self.headers.iter();
        Record {
            topic: &self.topic,
            partition: Some(self.partition),
            key: self.key.as_deref(),
            value: self.value.as_deref().map(Into::into),
            headers: headers
                .map(|(name, value)| Header {
                    name: name.into(),
                    value: value.as_deref().map(Into::into),
                })
                .collect(),
            timestamp_ms: self.timestamp_ms,
            line: self.line,
            again_ms: self.timestamp_ms,
        }
    }
}

#[cfg(test)]
mod tests;
