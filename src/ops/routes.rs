//! The metrics of each table and topic, as handles that the hot path updates without labels.

use std::collections::HashMap;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::Metrics;
use super::metrics::{ClassLabels, ResultLabels, RouteLabels};

/// Topics that have their own labels; the rest are counted as [`OTHER`].
pub(super) const TOPIC_LABELS_MAX: usize = 200;
pub(super) const OTHER: &str = "other";

/// The handles for one table and topic.
pub(crate) struct Route {
    labels: RouteLabels,
    published: Counter,
    dispatched: Counter,
    latency: Histogram,
}

impl Route {
    /// An event was acknowledged this long after its commit.
    pub(crate) fn published(&self, latency_seconds: f64) {
        self.published.inc();
        self.dispatched.inc();
        self.latency.observe(latency_seconds);
    }
}

/// Handles by table and topic, so that the hot path creates no labels.
pub(crate) struct Routes {
    metrics: Metrics,
    tables: Vec<String>,
    by_topic: Vec<HashMap<String, usize>>,
    routes: Vec<Route>,
}

impl Routes {
    /// Handles for these tables.
    pub(crate) fn new(metrics: Metrics, tables: Vec<String>) -> Self {
        let by_topic = tables.iter().map(|_| HashMap::new()).collect();
        Routes { metrics, tables, by_topic, routes: Vec::new() }
    }

    /// The index of the handles for a table's topic.
    pub(crate) fn index(&mut self, table: usize, topic: &str) -> usize {
        let Some(topics) = self.by_topic.get_mut(table) else {
            return usize::MAX;
        };
        if let Some(index) = topics.get(topic) {
            return *index;
        }
        let topic = if topics.len() < TOPIC_LABELS_MAX { topic } else { OTHER };
        if let Some(index) = topics.get(topic) {
            return *index;
        }
        let index = self.routes.len();
        topics.insert(topic.to_owned(), index);
        let table = self.tables.get(table).cloned().unwrap_or_default();
        let labels = RouteLabels { table: table.clone(), topic: topic.to_owned() };
        let results = ResultLabels { table, topic: topic.to_owned(), result: "success" };
        self.routes.push(Route {
            published: self.metrics.published.get_or_create_owned(&labels),
            labels,
            dispatched: self.metrics.dispatched.get_or_create_owned(&results),
            latency: self.metrics.dispatch_latency.get_or_create_owned(&results),
        });
        index
    }

    /// An event could not be published.
    pub(crate) fn failed(&mut self, table: usize, topic: &str, class: &'static str) {
        let index = self.index(table, topic);
        let Some(route) = self.routes.get(index) else { return };
        let RouteLabels { table, topic } = route.labels.clone();
        let results =
            ResultLabels { table: table.clone(), topic: topic.clone(), result: "failure" };
        self.metrics.dispatched.get_or_create(&results).inc();
        let classes = ClassLabels { table, topic, class };
        self.metrics.publish_errors.get_or_create(&classes).inc();
    }

    /// An event will not be tried again.
    pub(crate) fn died(&mut self, table: usize, topic: &str) {
        let index = self.index(table, topic);
        if let Some(route) = self.routes.get(index) {
            self.metrics.dead.get_or_create(&route.labels).inc();
        }
    }

    /// The index of the table of this name.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table == name)
    }

    /// The tables' names.
    pub(super) fn tables(&self) -> &[String] {
        &self.tables
    }

    /// The metrics behind the handles.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The handles at this index.
    pub(crate) fn get(&self, index: usize) -> Option<&Route> {
        self.routes.get(index)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn topics_beyond_the_cap_share_a_label() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let tables = vec!["a".to_owned(), "b".to_owned()];
        let mut routes = Routes::new(metrics, tables);
        let mut publish = |table: usize, topic: &str| {
            let index = routes.index(table, topic);
            routes.get(index).unwrap().published(0.001);
        };
        for number in 0..TOPIC_LABELS_MAX + 50 {
            publish(0, &format!("topic-{number}"));
        }
        // One that has its label keeps it; another table has labels of its own.
        publish(0, "topic-0");
        publish(1, "topic-249");
        routes.failed(0, "topic-0", "retryable");
        routes.failed(0, "topic-249", "rejected");
        routes.died(0, "topic-249");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let published: Vec<&str> =
            text.lines().filter(|line| line.starts_with("outbox_published_total{")).collect();
        assert_eq!(published.len(), TOPIC_LABELS_MAX + 2, "{text}");
        for series in [
            r#"outbox_published_total{table="a",topic="other"} 50"#,
            r#"outbox_published_total{table="a",topic="topic-0"} 2"#,
            r#"outbox_published_total{table="b",topic="topic-249"} 1"#,
        ] {
            assert!(published.contains(&series), "{series} is not in\n{text}");
        }
        for series in [
            r#"outbox_publish_errors_total{table="a",topic="topic-0",class="retryable"} 1"#,
            r#"outbox_publish_errors_total{table="a",topic="other",class="rejected"} 1"#,
            r#"outbox_dispatch_total{table="a",topic="other",result="failure"} 1"#,
            r#"outbox_dead_total{table="a",topic="other"} 1"#,
        ] {
            assert!(text.contains(series), "{series} is not in\n{text}");
        }
    }
}
