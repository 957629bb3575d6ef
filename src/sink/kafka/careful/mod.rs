//! The careful lane: records sent so that a refusal is about exactly one of them.
//!
//! Each partition has a queue; where the whole topic keeps its order, the topic has one. At most
//! one *group* of a queue is in flight: records without an order among them, so that nothing is
//! reordered whatever becomes of them. A group that is acknowledged makes the next one larger;
//! records of a group that were refused are sent again one by one, before anything else of their
//! partition, and only then does a refusal count. Waiting records are copies, and count towards the
//! limit for everything in flight.

mod limits;
mod queue;
mod record;

use std::collections::HashMap;

use self::limits::GroupLimits;
use self::queue::{Queue, QueuedRecord};
use self::record::OwnedRecord;
use super::lane::Lane;
use super::murmur2::partition_of;
use postrider_core::delivery::{Broken, NotTaken, Outcome, Reason, Report, Ticket};
use postrider_core::envelope::Record;
use postrider_core::order::OrderedBy;

/// The queue of a topic that keeps its order as a whole; no partition has this number.
const WHOLE_TOPIC: i32 = -1;

/// Topics whose limits are known. If there are more, those without records here are forgotten, and
/// start over.
const LIMITS_MAX: usize = 10_000;

/// The queues of the topics that need care.
#[derive(Default)]
pub(super) struct CarefulQueues {
    queues: HashMap<String, HashMap<i32, Queue>>,
    limits: HashMap<String, GroupLimits>,
    /// Where each ticket in flight belongs.
    in_flight: HashMap<Ticket, (String, i32)>,
}

impl CarefulQueues {
    /// Whether this lane has records of the topic.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.queues.contains_key(topic)
    }

    /// The topic of a record in flight.
    pub(super) fn topic(&self, ticket: Ticket) -> Option<&str> {
        self.in_flight.get(&ticket).map(|(topic, _)| topic.as_str())
    }

    /// Accepts a record, and sends what can be sent.
    pub(super) fn enqueue(
        &mut self,
        lane: &Lane,
        record: &Record<'_>,
        ticket: Ticket,
        topic: TopicFacts,
    ) -> Result<(), NotTaken> {
        let partition = match (record.partition, record.partition_key()) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, topic.partitions),
            // Any partition will do.
            (None, None) => (ticket.number() % topic.partitions.max(1) as u64) as i32,
        };
        if self.limits.len() >= LIMITS_MAX && !self.limits.contains_key(record.topic) {
            self.limits.retain(|topic, _| self.queues.contains_key(topic));
        }
        let waiting =
            QueuedRecord { ticket, record: OwnedRecord::copy(record, partition), alone: false };
        let queue = if record.ordered_by == OrderedBy::Topic { WHOLE_TOPIC } else { partition };
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
    pub(super) fn settle(
        &mut self,
        lane: &Lane,
        ticket: Ticket,
        outcome: Outcome,
        facts: impl Fn(&str) -> TopicFacts,
        reports: &mut Vec<Report>,
    ) -> Result<Option<String>, Broken> {
        let Some((topic, partition)) = self.in_flight.remove(&ticket) else {
            return Ok(None);
        };
        let queues = self.queues.entry(topic.clone()).or_default();
        let queue = queues.entry(partition).or_default();
        let limits = self.limits.entry(topic.clone()).or_default();
        let index = queue.group.iter().position(|it| it.ticket == ticket);
        let taken = index.map(|index| queue.group.remove(index));
        match (outcome, taken) {
            (Outcome::Ok, _) => {
                if queue.group.is_empty() && queue.refused.is_empty() {
                    limits.raise();
                }
                reports.push(Report::Settled(ticket, Outcome::Ok));
            }
            (_, Some(mut taken)) if queue.group_size > 1 => {
                taken.alone = true;
                queue.refused.push(taken);
            }
            // Sent once more with the current time, before it is rejected.
            (outcome, Some(mut taken))
                if is_about_timestamp(&outcome) && taken.record.fallback_timestamp.is_some() =>
            {
                taken.record.use_current_time();
                limits.uses_current_time = true;
                taken.alone = true;
                queue.refused.push(taken);
            }
            (outcome, taken) => {
                if let (Outcome::Reject(refusal), Some(taken)) = (&outcome, &taken)
                    && refusal.reason == Reason::TooLarge
                {
                    limits.note_too_large(taken.record.batch_bytes);
                }
                reports.push(Report::Settled(ticket, outcome.clone()));
                if let Some(taken) = taken {
                    queue.report_blocked_followers(&taken.record, reports);
                }
                if is_about_topic(&outcome) {
                    self.refuse_topic(&topic, &outcome, reports);
                    return Ok((!self.has(&topic)).then_some(topic));
                }
            }
        }
        if queue.group.is_empty() {
            if !queue.refused.is_empty() {
                limits.lower(queue.group_size);
                queue.requeue_refused();
            }
            self.send_and_report(lane, &topic, partition, facts(&topic).batch_bytes_max, reports)?;
        }
        Ok((!self.has(&topic)).then_some(topic))
    }

    /// Sends the next group, and reports the records that the client itself did not accept.
    fn send_and_report(
        &mut self,
        lane: &Lane,
        topic: &str,
        partition: i32,
        batch_bytes_max: Option<usize>,
        reports: &mut Vec<Report>,
    ) -> Result<(), Broken> {
        loop {
            let refused = self.send(lane, topic, partition, batch_bytes_max)?;
            if refused.is_empty() {
                return Ok(());
            }
            for (it, outcome) in refused {
                reports.push(Report::Settled(it.ticket, outcome));
                let queues = self.queues.get_mut(topic);
                if let Some(queue) = queues.and_then(|queues| queues.get_mut(&partition)) {
                    queue.report_blocked_followers(&it.record, reports);
                }
            }
            self.forget_empty(topic);
        }
    }

    /// Records that wait for a topic that accepts nothing need not be sent. Those in flight get
    /// their own answers.
    fn refuse_topic(&mut self, topic: &str, outcome: &Outcome, reports: &mut Vec<Report>) {
        let Some(queues) = self.queues.get_mut(topic) else { return };
        for queue in queues.values_mut() {
            reports.extend(queue.refuse_waiting(outcome));
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
        batch_bytes_max: Option<usize>,
    ) -> Result<Vec<(QueuedRecord, Outcome)>, Broken> {
        let mut refused = Vec::new();
        let limits = self.limits.entry(topic.to_owned()).or_default();
        if let Some(queue) = self.queues.get_mut(topic).and_then(|it| it.get_mut(&partition))
            && queue.group.is_empty()
            && queue.refused.is_empty()
        {
            for mut waiting in queue.take_group(limits, batch_bytes_max) {
                if limits.uses_current_time {
                    waiting.record.use_current_time();
                }
                let record = waiting.record.as_record();
                match lane.enqueue(&record, record.partition, waiting.ticket) {
                    Ok(()) => {
                        self.in_flight.insert(waiting.ticket, (topic.to_owned(), partition));
                        queue.group.push(waiting);
                    }
                    Err(NotTaken::Retry(why)) => refused.push((waiting, Outcome::Retry(why))),
                    Err(NotTaken::Reject(why)) => refused.push((waiting, Outcome::Reject(why))),
                    // The client's own queue has space for everything that the relay allows in
                    // flight.
                    Err(not_taken) => return Err(unexpected_answer(&not_taken)),
                }
            }
            queue.group_size = queue.group.len();
        }
        self.forget_empty(topic);
        Ok(refused)
    }

    fn forget_empty(&mut self, topic: &str) {
        if let Some(queues) = self.queues.get_mut(topic) {
            queues.retain(|_, queue| !queue.is_empty());
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

impl TopicFacts {
    pub(super) const UNKNOWN: TopicFacts = TopicFacts { partitions: 1, batch_bytes_max: None };
}

fn is_about_timestamp(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Reject(refusal) if refusal.reason == Reason::Timestamp)
}

/// Whether the refusal of one record means that the topic would accept none.
fn is_about_topic(outcome: &Outcome) -> bool {
    let Outcome::Retry(refusal) = outcome else { return false };
    [Reason::TopicMissing, Reason::TopicDenied].contains(&refusal.reason)
}

fn unexpected_answer(not_taken: &NotTaken) -> Broken {
    match not_taken {
        NotTaken::Broken(broken) => broken.clone(),
        _ => Broken::new("the Kafka client did not accept a record although its queue has space"),
    }
}

#[cfg(test)]
mod tests;
