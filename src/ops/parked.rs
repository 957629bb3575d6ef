//! The metrics of events that could not be published.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::gauges::Gauges;
use super::metrics::{OTHER, RouteLabels, TOPIC_LABELS_MAX};
use super::{Metrics, Routes, Vitals};
use postrider_core::delivery::Class;
use postrider_core::parking::{Counts, Observer, Orphans, ReplayedCount};

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
            "Events in the side table that will be tried again",
            metrics.pending.family.clone(),
        );
        registry.register(
            "outbox_locked_count",
            "Events in the side table that an instance is trying",
            metrics.locked.family.clone(),
        );
        registry.register(
            "outbox_replayed",
            "Events that were replayed by command, by result",
            metrics.replayed.clone(),
        );
        metrics
    }

    /// Replaces what was known. Tables without parked events are shown with 0.
    fn set(&self, counts: &Counts, tables: &[String]) {
        let label = |table: &str| TableLabel { table: table.to_owned() };
        let none = || tables.iter().map(|table| (label(table), 0)).collect();
        let mut dead: HashMap<RouteLabels, i64> = HashMap::new();
        let (mut pending, mut locked): (HashMap<_, i64>, HashMap<_, i64>) = (none(), none());
        // The largest counts come first, and so get their own labels.
        let mut topics: HashMap<&str, usize> = HashMap::new();
        for count in &counts.live {
            let table = &count.source_table;
            let sum = match count.status.as_str() {
                "pending" => pending.entry(label(table)).or_default(),
                "processing" => locked.entry(label(table)).or_default(),
                _ => {
                    let known = topics.entry(table).or_default();
                    *known += 1;
                    let topic = if *known <= TOPIC_LABELS_MAX { &count.topic } else { OTHER };
                    let labels = RouteLabels { table: table.clone(), topic: topic.to_owned() };
                    dead.entry(labels).or_default()
                }
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

/// Counts what the poller does.
pub(crate) struct PollerMetrics {
    routes: Routes,
    vitals: Arc<Vitals>,
}

impl PollerMetrics {
    /// With its own handles, so that it shares nothing with the hot path.
    pub(crate) fn new(routes: Routes, vitals: Arc<Vitals>) -> Self {
        PollerMetrics { routes, vitals }
    }
}

/// Of tables that are no longer configured only the waiting events are counted, not what becomes of
/// them.
impl Observer for PollerMetrics {
    fn delivered(&mut self, table: &str, topic: &str, latency_seconds: f64) {
        if let Some(table) = self.routes.table(table) {
            let index = self.routes.index(table, topic);
            if let Some(route) = self.routes.get(index) {
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
        self.vitals.set_side_table(counts.total, began);
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
    use postrider_core::parking::LiveCount;

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
        let replayed_five = vec![replayed(5)];
        let counts = Counts { live: counts, replayed: replayed_five, orphans, ..Counts::default() };
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
        // More topics, with larger counts: none that had its own label moves to the rest.
        let more = (0..300).map(|n| ReplayedCount { topic: format!("r{n}"), ..replayed(9) });
        let replayed = more.chain([replayed(8)]).collect();
        poller.counted(&Counts { replayed, ..Counts::default() }, Instant::now());
        let second = text(&registry);
        let rest = r#"outbox_replayed_total{topic="other",result="success"} 909"#;
        assert!(second.contains(rest), "{second}");
        assert!(!second.contains("outbox_dead_events{"), "{second}");
        assert!(!second.contains("postrider_orphaned_events{"), "{second}");
        assert!(second.contains(r#"outbox_pending_count{table="a"} 0"#), "{second}");
        assert!(second.contains(r#"result="success"} 8"#), "{second}");
    }
}
