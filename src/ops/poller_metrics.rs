//! What the poller does, as metrics.

use std::sync::Arc;
use std::time::Instant;

use super::{Routes, Vitals};
use postrider_core::delivery::Class;
use postrider_core::parking::{Counts, Observer};

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
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::ops::Metrics;
    use postrider_core::parking::{LiveCount, Orphans, ReplayedCount, Status};

    #[test]
    fn what_is_counted_is_shown_and_what_is_gone_is_not() {
        let mut registry = Registry::default();
        let tables = ["a", "b"].map(str::to_owned).to_vec();
        let routes = Routes::new(Metrics::register(&mut registry), tables);
        let mut poller =
            PollerMetrics::new(routes, Arc::new(Vitals::register("slot", &mut registry)));
        let live = |table: &str, topic: &str, status, events| LiveCount {
            source_table: table.to_owned(),
            topic: topic.to_owned(),
            status,
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
            live("a", "t", Status::Pending, 3),
            live("a", "u", Status::Pending, 4),
            live("a", "t", Status::Processing, 2),
            live("gone", "t", Status::Dead, 9),
        ];
        counts.extend((0..250).map(|n| live("a", &format!("t{n}"), Status::Dead, 1)));
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
