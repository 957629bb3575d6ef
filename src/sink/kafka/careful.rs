//! The careful lane: records sent so that a refusal is about exactly one of them.
//!
//! Each partition has a queue; where the whole topic keeps its order, the topic has one. At most
//! one *group* of a queue is in flight: records without an order among them, so that nothing is
//! reordered whatever becomes of them. A group that is acknowledged makes the next one larger;
//! records of a group that were refused are sent again one by one, before anything else of their
//! partition, and only then does a refusal count. Waiting records are copies, and count towards the
//! limit for everything in flight.

mod owned;

use std::collections::{HashMap, HashSet, VecDeque};

use self::owned::Owned;
use super::lane::Lane;
use super::murmur2::partition_of;
use postrider_core::delivery::Ticket;
use postrider_core::delivery::{Broken, NotTaken, Report};
use postrider_core::delivery::{Outcome, Reason};
use postrider_core::envelope::Record;
use postrider_core::parking::Line;

/// Records of one group at the most.
const GROUP_MAX: usize = 64;
/// Bytes of one group at the most, where the topic's own limit is not known.
const GROUP_BYTES_MAX: usize = 64 * 1024;
/// The queue of a topic that keeps its order as a whole; no partition has this number.
const WHOLE_TOPIC: i32 = -1;

/// Topics whose pace is known. If there are more, those without records here are forgotten, and
/// start over.
const PACES_MAX: usize = 10_000;

struct Waiting {
    ticket: Ticket,
    record: Owned,
    /// It is sent alone: it was refused together with others, or for its timestamp.
    alone: bool,
}

/// How a topic has accepted groups so far.
struct Pace {
    group_max: usize,
    /// The size that groups grow up to.
    ceiling: usize,
    /// The smallest record that was refused alone for its size: records of this size or more are
    /// sent alone.
    too_large_bytes: Option<usize>,
    /// A timestamp was refused: records that are still here get the current time before they are
    /// sent.
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
    /// Whether this lane has records of the topic.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.queues.contains_key(topic)
    }

    /// The topic of a record in flight.
    pub(super) fn topic(&self, ticket: Ticket) -> Option<&str> {
        self.flights.get(&ticket).map(|(topic, _)| topic.as_str())
    }

    /// Accepts a record, and sends what can be sent.
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
            // Any partition will do.
            (None, None) => (ticket.number() % topic.partitions.max(1) as u64) as i32,
        };
        if self.paces.len() >= PACES_MAX && !self.paces.contains_key(record.topic) {
            self.paces.retain(|topic, _| self.queues.contains_key(topic));
        }
        let waiting = Waiting { ticket, record: Owned::of(record, partition), alone: false };
        let queue = if record.line == Line::Topic { WHOLE_TOPIC } else { partition };
        let queues = self.queues.entry(record.topic.to_owned()).or_default();
        queues.entry(queue).or_default().waiting.push_back(waiting);
        let sent = self.send(lane, record.topic, queue, topic.batch_bytes_max);
        // Waiting records wait for a group in flight, so only this record can have been sent now.
        match sent.map_err(NotTaken::Broken)?.pop() {
            None | Some((_, Outcome::Ok | Outcome::Blocked)) => Ok(()),
            Some((_, Outcome::Retry(refusal))) => Err(NotTaken::Retry(refusal)),
            Some((_, Outcome::Reject(refusal))) => Err(NotTaken::Reject(refusal)),
        }
    }

    /// The lane's answer about a record: it is reported, unless the record has to be sent again.
    /// Returns the topic if nothing of it is left here.
    pub(super) fn settled(
        &mut self,
        lane: &Lane,
        ticket: Ticket,
        outcome: Outcome,
        facts: impl Fn(&str) -> TopicFacts,
        reports: &mut Vec<Report>,
    ) -> Result<Option<String>, Broken> {
        let Some((topic, partition)) = self.flights.remove(&ticket) else {
            return Ok(None);
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
            // Sent once more with the current time, before it is rejected.
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
                    return Ok((!self.has(&topic)).then_some(topic));
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
            self.send_on(lane, &topic, partition, facts(&topic).batch_bytes_max, reports)?;
        }
        Ok((!self.has(&topic)).then_some(topic))
    }

    /// Sends the next group, and reports the records that the client itself did not accept.
    fn send_on(
        &mut self,
        lane: &Lane,
        topic: &str,
        partition: i32,
        limit: Option<usize>,
        reports: &mut Vec<Report>,
    ) -> Result<(), Broken> {
        loop {
            let refused = self.send(lane, topic, partition, limit)?;
            if refused.is_empty() {
                return Ok(());
            }
            for (it, outcome) in refused {
                reports.push(Report::Settled(it.ticket, outcome));
                let queues = self.queues.get_mut(topic);
                if let Some(queue) = queues.and_then(|queues| queues.get_mut(&partition)) {
                    give_back_followers(queue, &it.record, reports);
                }
            }
            self.forget_empty(topic);
        }
    }

    /// Records that wait for a topic that accepts nothing need not be sent. Those in flight get
    /// their own answers.
    fn give_up(&mut self, topic: &str, outcome: &Outcome, reports: &mut Vec<Report>) {
        let Some(queues) = self.queues.get_mut(topic) else { return };
        for queue in queues.values_mut() {
            reports.extend(given_up(queue, outcome));
        }
        self.forget_empty(topic);
    }

    /// Sends the next group of a partition, if none is in flight. Returns the records that the
    /// client itself did not accept, with its answer about each alone.
    fn send(
        &mut self,
        lane: &Lane,
        topic: &str,
        partition: i32,
        limit: Option<usize>,
    ) -> Result<Vec<(Waiting, Outcome)>, Broken> {
        let mut refused = Vec::new();
        let pace = self.paces.entry(topic.to_owned()).or_default();
        if let Some(queue) = self.queues.get_mut(topic).and_then(|it| it.get_mut(&partition))
            && queue.group.is_empty()
            && queue.refused.is_empty()
        {
            for mut waiting in next_group(&mut queue.waiting, pace, limit) {
                if pace.restamps {
                    waiting.record.restamp();
                }
                match lane.enqueue(&waiting.record.as_record(), waiting.ticket) {
                    Ok(()) => {
                        self.flights.insert(waiting.ticket, (topic.to_owned(), partition));
                        queue.group.push(waiting);
                    }
                    Err(NotTaken::Retry(why)) => refused.push((waiting, Outcome::Retry(why))),
                    Err(NotTaken::Reject(why)) => refused.push((waiting, Outcome::Reject(why))),
                    // The client's own queue has space for everything that the relay allows in
                    // flight.
                    Err(not_taken) => return Err(lost_room(&not_taken)),
                }
            }
            queue.group_size = queue.group.len();
        }
        self.forget_empty(topic);
        Ok(refused)
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

/// What is known about a topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopicFacts {
    pub(super) partitions: usize,
    pub(super) batch_bytes_max: Option<usize>,
}

/// Records of a refused record's key must not be written before it is decided what becomes of that
/// one.
fn give_back_followers(queue: &mut Queue, refused: &Owned, reports: &mut Vec<Report>) {
    let (followers, others) = std::mem::take(&mut queue.waiting)
        .into_iter()
        .partition(|it| refused.keeps_order_with(&it.record));
    queue.waiting = others;
    let followers: VecDeque<Waiting> = followers;
    reports.extend(followers.into_iter().map(|it| Report::Settled(it.ticket, Outcome::Blocked)));
}

/// The outcome is about the first record of each key; the others only wait for it. Records that
/// wait for one in flight stay: a follower is never reported before the first record of its key.
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
        Report::Settled(it.ticket, if first { outcome.clone() } else { Outcome::Blocked })
    };
    leaving.into_iter().map(tell).collect()
}

fn is_about_a_stamp(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Reject(refusal) if refusal.reason == Reason::TIMESTAMP)
}

/// Whether the refusal of one record means that the topic would accept none.
fn topic_is_at_fault(outcome: &Outcome) -> bool {
    let Outcome::Retry(refusal) = outcome else { return false };
    [Reason::TOPIC_MISSING, Reason::TOPIC_DENIED].contains(&refusal.reason)
}

fn lost_room(not_taken: &NotTaken) -> Broken {
    match not_taken {
        NotTaken::Broken(broken) => broken.clone(),
        _ => Broken::new("the Kafka client did not accept a record although its queue has space"),
    }
}

/// Takes from the front: records of different keys, within the limits. A record that must be sent
/// alone is a group of its own.
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

#[cfg(test)]
mod tests;
