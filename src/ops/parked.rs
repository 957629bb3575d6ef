//! The metrics of events that could not be published.

use postrider_core::parking::Status;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::gauges::Gauges;
use super::metrics::RouteLabels;
use super::routes::{OTHER, TOPIC_LABELS_MAX};
use postrider_core::parking::{Counts, Orphans, ReplayedCount};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabel {
    table: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SlotLabel {
    slot: String,
}

/// Slots with labels of their own.
const SLOT_LABELS_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReplayLabels {
    topic: String,
    result: String,
}

/// The contents of the side table, as they were counted last.
#[derive(Clone)]
pub(super) struct ParkedMetrics {
    dead: Gauges<RouteLabels>,
    pending: Gauges<TableLabel>,
    locked: Gauges<TableLabel>,
    replayed: Family<ReplayLabels, Counter>,
    /// Topics of replayed events that have their own labels. They keep them: events that moved from
    /// one counter to another would be counted twice.
    replayed_topics: Arc<Mutex<HashSet<String>>>,
    orphaned: Gauges<SlotLabel>,
}

impl ParkedMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = ParkedMetrics {
            dead: Gauges::default(),
            pending: Gauges::default(),
            locked: Gauges::default(),
            replayed: Family::default(),
            replayed_topics: Arc::default(),
            orphaned: Gauges::default(),
        };
        registry.register(
            "postrider_orphaned_events",
            "Events in the side table of slots that no longer exist: nobody retries them",
            metrics.orphaned.family.clone(),
        );
        registry.register(
            "outbox_dead_events",
            "Events in the side table that wait for an operator",
            metrics.dead.family.clone(),
        );
        registry.register(
            "outbox_pending_count",
            "Events in the side table that are retried or wait for an earlier event",
            metrics.pending.family.clone(),
        );
        registry.register(
            "outbox_locked_count",
            "Events in the side table that are being retried now",
            metrics.locked.family.clone(),
        );
        registry.register(
            "outbox_replayed",
            "Events that `postrider replay` tried to publish again, by result",
            metrics.replayed.clone(),
        );
        metrics
    }

    /// Replaces what was known. Tables without parked events are shown with 0.
    pub(super) fn set(&self, counts: &Counts, tables: &[String]) {
        let label = |table: &str| TableLabel { table: table.to_owned() };
        let none = || tables.iter().map(|table| (label(table), 0)).collect();
        let mut dead: HashMap<RouteLabels, i64> = HashMap::new();
        let (mut pending, mut locked): (HashMap<_, i64>, HashMap<_, i64>) = (none(), none());
        // The largest counts come first, and so get their own labels.
        let mut topics: HashMap<&str, usize> = HashMap::new();
        for count in &counts.live {
            let table = &count.source_table;
            let sum = match count.status {
                Status::Pending => pending.entry(label(table)).or_default(),
                Status::Processing => locked.entry(label(table)).or_default(),
                Status::Dead => {
                    let known = topics.entry(table).or_default();
                    *known += 1;
                    let topic = if *known <= TOPIC_LABELS_MAX { &count.topic } else { OTHER };
                    let labels = RouteLabels { table: table.clone(), topic: topic.to_owned() };
                    dead.entry(labels).or_default()
                }
                // Finished events are not counted.
                Status::Delivered | Status::Discarded => continue,
            };
            *sum = sum.saturating_add_unsigned(count.events);
        }
        self.pending.replace(pending);
        self.locked.replace(locked);
        self.dead.replace(dead);
        self.set_replayed(&counts.replayed);
        self.set_orphaned(&counts.orphans);
    }

    fn set_orphaned(&self, orphans: &[Orphans]) {
        let mut sums: HashMap<SlotLabel, i64> = HashMap::new();
        for (index, Orphans { slot, events }) in orphans.iter().enumerate() {
            let slot = if index < SLOT_LABELS_MAX { slot } else { OTHER };
            let sum = sums.entry(SlotLabel { slot: slot.to_owned() }).or_default();
            *sum = sum.saturating_add_unsigned(*events);
        }
        self.orphaned.replace(sums);
    }

    /// The side table has the sums over all commands, so the counters are set to them.
    fn set_replayed(&self, counts: &[ReplayedCount]) {
        let mut own = self.replayed_topics.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: HashMap<ReplayLabels, u64> = HashMap::new();
        for count in counts {
            if own.len() < TOPIC_LABELS_MAX {
                own.insert(count.topic.clone());
            }
            let topic = if own.contains(&count.topic) { &count.topic } else { OTHER };
            let labels = ReplayLabels { topic: topic.to_owned(), result: count.result.clone() };
            *sums.entry(labels).or_default() += count.events;
        }
        for (labels, events) in sums {
            self.replayed.get_or_create(&labels).inner().store(events, Ordering::Relaxed);
        }
    }
}

impl Metrics {
    /// For a relay without a poller, which counts them with everything else.
    pub(crate) fn set_orphaned(&self, orphans: &[Orphans]) {
        self.parked.set_orphaned(orphans);
    }
}
