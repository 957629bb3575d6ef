//! The metrics of events that could not be published.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::metrics::{OTHER, RouteLabels, TOPIC_LABELS_MAX};
use super::{Routes, Vitals};
use crate::undelivered::Class;
use crate::undelivered::poller::Observer;
use crate::undelivered::store::{Counts, Orphans, ReplayedCount};

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

/// What is in the side table, as it was counted last.
#[derive(Clone)]
pub(super) struct ParkedMetrics {
    dead: Family<RouteLabels, Gauge>,
    pending: Family<TableLabel, Gauge>,
    locked: Family<TableLabel, Gauge>,
    replayed: Family<ReplayLabels, Counter>,
    orphaned: Family<SlotLabel, Gauge>,
}

impl ParkedMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = ParkedMetrics {
            dead: Family::default(),
            pending: Family::default(),
            locked: Family::default(),
            replayed: Family::default(),
            orphaned: Family::default(),
        };
        registry.register(
            "postrider_orphaned_events",
            "Events in the side table of slots that do not exist any more: nobody retries them",
            metrics.orphaned.clone(),
        );
        registry.register(
            "outbox_dead_events",
            "Events in the side table that wait for an operator",
            metrics.dead.clone(),
        );
        registry.register(
            "outbox_pending_count",
            "Events in the side table that will be tried again",
            metrics.pending.clone(),
        );
        registry.register(
            "outbox_locked_count",
            "Events in the side table that an instance is trying",
            metrics.locked.clone(),
        );
        registry.register(
            "outbox_replayed",
            "Events that were replayed by command, by result",
            metrics.replayed.clone(),
        );
        metrics
    }

    /// Replaces what was known. Tables without parked events have none, said so.
    fn set(&self, counts: &Counts, tables: &[String]) {
        let label = |table: &str| TableLabel { table: table.to_owned() };
        self.pending.clear();
        self.locked.clear();
        self.dead.clear();
        for table in tables {
            self.pending.get_or_create(&label(table)).set(0);
            self.locked.get_or_create(&label(table)).set(0);
        }
        // The largest counts come first, and so get labels of their own.
        let mut topics: HashMap<&str, usize> = HashMap::new();
        for count in &counts.live {
            let table = &count.source_table;
            let events = i64::try_from(count.events).unwrap_or(i64::MAX);
            match count.status.as_str() {
                "pending" => drop(self.pending.get_or_create(&label(table)).inc_by(events)),
                "processing" => drop(self.locked.get_or_create(&label(table)).inc_by(events)),
                _ => {
                    let known = topics.entry(table).or_default();
                    *known += 1;
                    let topic = if *known <= TOPIC_LABELS_MAX { &count.topic } else { OTHER };
                    let labels = RouteLabels { table: table.clone(), topic: topic.to_owned() };
                    self.dead.get_or_create(&labels).inc_by(events);
                }
            }
        }
        self.set_replayed(&counts.replayed);
        self.set_orphaned(&counts.orphans);
    }

    fn set_orphaned(&self, orphans: &[Orphans]) {
        self.orphaned.clear();
        for (place, Orphans { slot, events }) in orphans.iter().enumerate() {
            let slot = if place < SLOT_LABELS_MAX { slot } else { OTHER };
            let events = i64::try_from(*events).unwrap_or(i64::MAX);
            self.orphaned.get_or_create(&SlotLabel { slot: slot.to_owned() }).inc_by(events);
        }
    }

    /// The side table has the sums of all commands, so they are taken over as they are.
    fn set_replayed(&self, counts: &[ReplayedCount]) {
        let mut sums: HashMap<ReplayLabels, u64> = HashMap::new();
        for (place, count) in counts.iter().enumerate() {
            let topic = if place < TOPIC_LABELS_MAX { &count.topic } else { OTHER };
            let labels = ReplayLabels { topic: topic.to_owned(), result: count.result.clone() };
            *sums.entry(labels).or_default() += count.events;
        }
        for (labels, events) in sums {
            self.replayed.get_or_create(&labels).inner().store(events, Ordering::Relaxed);
        }
    }
}

/// Counts what the poller does.
pub struct PollerMetrics {
    routes: Routes,
    vitals: Arc<Vitals>,
}

impl PollerMetrics {
    /// With handles of its own, so that it shares nothing with the hot path.
    pub fn new(routes: Routes, vitals: Arc<Vitals>) -> Self {
        PollerMetrics { routes, vitals }
    }
}

/// Events of tables that are not configured any more are not counted, only those that wait.
impl Observer for PollerMetrics {
    fn delivered(&mut self, table: &str, topic: &str, latency_seconds: f64) {
        if let Some(table) = self.routes.table(table) {
            let number = self.routes.number(table, topic);
            if let Some(route) = self.routes.get(number) {
                route.published(latency_seconds);
            }
        }
    }

    fn failed(&mut self, table: &str, topic: &str, class: Class) {
        if let Some(table) = self.routes.table(table) {
            self.routes.failed(table, topic, class.name());
        }
    }

    fn died(&mut self, table: &str, topic: &str) {
        if let Some(table) = self.routes.table(table) {
            self.routes.died(table, topic);
        }
    }

    fn counted(&mut self, counts: &Counts, began: Instant) {
        self.routes.metrics().parked.set(counts, self.routes.tables());
        self.vitals.set_parked_bytes(counts.live.iter().map(|count| count.bytes).sum(), began);
    }

    fn taken_over(&mut self, takeovers: i64) {
        self.vitals.set_takeovers(takeovers);
    }

    fn fetch_error(&mut self) {
        self.routes.metrics().fetch_errors.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Metrics;
    use crate::undelivered::store::LiveCount;

    #[test]
    fn what_is_counted_is_shown_and_what_is_gone_is_not() {
        let mut registry = Registry::default();
        let tables = ["a", "b"].map(str::to_owned).to_vec();
        let routes = Routes::new(Metrics::register(&mut registry), tables);
        let mut poller =
            PollerMetrics::new(routes, Arc::new(Vitals::register("slot", &mut registry)));
        let live = |table: &str, topic: &str, status: &str, events| LiveCount {
            source_table: table.to_owned(),
            topic: topic.to_owned(),
            status: status.to_owned(),
            events,
            bytes: 0,
        };
        let replayed =
            |events| ReplayedCount { topic: "t".to_owned(), result: "success".to_owned(), events };
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        let mut counts = vec![
            live("a", "t", "pending", 3),
            live("a", "u", "pending", 4),
            live("a", "t", "processing", 2),
            live("gone", "t", "dead", 9),
        ];
        counts.extend((0..250).map(|n| live("a", &format!("t{n}"), "dead", 1)));
        let orphans: Vec<Orphans> =
            (0..25).map(|n| Orphans { slot: format!("s{n}"), events: 2 }).collect();
        let counts = Counts { live: counts, replayed: vec![replayed(5)], orphans };
        poller.counted(&counts, Instant::now());
        poller.delivered("b", "t", 0.1);
        poller.died("b", "t");
        poller.fetch_error();
        let first = text(&registry);
        for series in [
            r#"outbox_pending_count{table="a"} 7"#,
            r#"outbox_pending_count{table="b"} 0"#,
            r#"outbox_locked_count{table="a"} 2"#,
            r#"outbox_dead_events{table="gone",topic="t"} 9"#,
            r#"outbox_dead_events{table="a",topic="other"} 50"#,
            r#"outbox_replayed_total{topic="t",result="success"} 5"#,
            r#"outbox_published_total{table="b",topic="t"} 1"#,
            r#"outbox_dead_total{table="b",topic="t"} 1"#,
            "outbox_fetch_errors_total 1",
            r#"postrider_orphaned_events{slot="s7"} 2"#,
            r#"postrider_orphaned_events{slot="other"} 10"#,
        ] {
            assert!(first.contains(series), "{series} is not in\n{first}");
        }
        let counts = Counts { replayed: vec![replayed(8)], ..Counts::default() };
        poller.counted(&counts, Instant::now());
        let second = text(&registry);
        assert!(!second.contains("outbox_dead_events{"), "{second}");
        assert!(!second.contains("postrider_orphaned_events{"), "{second}");
        assert!(second.contains(r#"outbox_pending_count{table="a"} 0"#), "{second}");
        assert!(second.contains(r#"result="success"} 8"#), "{second}");
    }
}
