//! The queue of one partition, or of a topic that keeps its order as a whole.

use std::collections::{HashSet, VecDeque};

use super::limits::GroupLimits;
use super::record::OwnedRecord;
use postrider_core::delivery::{Outcome, Report, Ticket};

/// Bytes of one group at the most, where the topic's own limit is not known.
const GROUP_BYTES_MAX: usize = 64 * 1024;

pub(super) struct QueuedRecord {
    pub(super) ticket: Ticket,
    pub(super) record: OwnedRecord,
    /// It is sent alone: it was refused together with others, or for its timestamp.
    pub(super) alone: bool,
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<QueuedRecord>,
    /// The group in flight, in order.
    pub(super) group: Vec<QueuedRecord>,
    pub(super) group_size: usize,
    /// Records of the group that were refused.
    pub(super) refused: Vec<QueuedRecord>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.group.is_empty() && self.refused.is_empty()
    }

    /// Records of a refused record's key must not be written before it is decided what becomes of
    /// that one.
    pub(super) fn report_blocked_followers(
        &mut self,
        refused: &OwnedRecord,
        reports: &mut Vec<Report>,
    ) {
        let (followers, others) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|it| refused.keeps_order_with(&it.record));
        self.waiting = others;
        let followers: VecDeque<QueuedRecord> = followers;
        reports
            .extend(followers.into_iter().map(|it| Report::Settled(it.ticket, Outcome::Blocked)));
    }

    /// The outcome is about the first record of each key; the others only wait for it. Records that
    /// wait for one in flight stay: a follower is never reported before the first record of its
    /// key.
    pub(super) fn refuse_waiting(&mut self, outcome: &Outcome) -> Vec<Report> {
        let in_flight = self.group.iter().chain(&self.refused);
        let in_flight: HashSet<_> = in_flight.filter_map(|it| it.record.order_key()).collect();
        let (staying, leaving): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|it| it.record.order_key().is_some_and(|key| in_flight.contains(&key)));
        self.waiting = staying;
        let mut seen = HashSet::new();
        let report = |it: QueuedRecord| {
            let first = it.record.order_key().is_none_or(|key| seen.insert(key));
            Report::Settled(it.ticket, if first { outcome.clone() } else { Outcome::Blocked })
        };
        leaving.into_iter().map(report).collect()
    }

    /// Records of the group that were refused return to the front, in their order.
    pub(super) fn requeue_refused(&mut self) {
        self.refused.sort_by_key(|it| it.ticket);
        while let Some(again) = self.refused.pop() {
            self.waiting.push_front(again);
        }
    }

    /// Takes from the front: records of different keys, within the limits. A record that must be
    /// sent alone is a group of its own.
    pub(super) fn take_group(
        &mut self,
        limits: &GroupLimits,
        batch_bytes_max: Option<usize>,
    ) -> Vec<QueuedRecord> {
        let bytes_max = batch_bytes_max.unwrap_or(GROUP_BYTES_MAX).min(GROUP_BYTES_MAX);
        let alone = |it: &QueuedRecord| {
            it.alone || limits.too_large_bytes.is_some_and(|bytes| it.record.batch_bytes >= bytes)
        };
        let mut group: Vec<QueuedRecord> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            let fits = group.len() < limits.group_max
                && bytes + next.record.batch_bytes <= bytes_max
                && !alone(next)
                && !group.iter().any(|it| it.record.keeps_order_with(&next.record));
            if !group.is_empty() && !fits {
                break;
            }
            let is_alone = alone(next);
            bytes += next.record.batch_bytes;
            group.extend(self.waiting.pop_front());
            if is_alone {
                break;
            }
        }
        group
    }
}
