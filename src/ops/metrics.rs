//! The metrics of the hot path. Names are a contract with dashboards.

use std::collections::HashMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::parked::ParkedMetrics;

/// Topics that have their own labels; the rest are counted as [`OTHER`].
pub(super) const TOPIC_LABELS_MAX: usize = 200;
pub(super) const OTHER: &str = "other";

/// From a millisecond to a minute.
const LATENCY_BUCKETS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) table: String,
    pub(super) topic: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    table: String,
    topic: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    table: String,
    topic: String,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabel {
    table: String,
}

/// What arrives through a publication and is not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// An UPDATE.
    Update,
    /// A DELETE.
    Delete,
    /// A TRUNCATE.
    Truncate,
    /// A row of a table that is not an outbox.
    OtherTable,
    /// A logical message of another program.
    ForeignMessage,
    /// A logical message with our prefix that is not part of a transaction: it proves nothing about
    /// what was committed.
    NonTransactionalMessage,
    /// A logical message with our prefix that is not an event, once enough of them are kept.
    MalformedMessage,
}

/// Counters and histograms; the handles can be cloned, and are updated without locks.
#[derive(Clone)]
pub(crate) struct Metrics {
    published: Family<RouteLabels, Counter>,
    publish_errors: Family<ClassLabels, Counter>,
    dispatched: Family<ResultLabels, Counter>,
    dispatch_latency: Family<ResultLabels, Histogram>,
    dead: Family<RouteLabels, Counter>,
    /// The contents of the side table.
    pub(super) parked: ParkedMetrics,
    /// Failures of the replication stream, and of queries on the side table.
    pub fetch_errors: Counter,
    restarts: Family<ReasonLabel, Counter>,
    ignored: Family<KindLabel, Counter>,
    cleaned: Family<TableLabel, Counter>,
}

impl Metrics {
    /// Registers all metrics.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Metrics {
            published: Family::default(),
            publish_errors: Family::default(),
            dispatched: Family::default(),
            dispatch_latency: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            dead: Family::default(),
            parked: ParkedMetrics::register(registry),
            fetch_errors: Counter::default(),
            restarts: Family::default(),
            ignored: Family::default(),
            cleaned: Family::default(),
        };
        registry.register(
            "outbox_published",
            "Events acknowledged by the broker",
            metrics.published.clone(),
        );
        registry.register(
            "outbox_publish_errors",
            "Events that could not be published, by class of error",
            metrics.publish_errors.clone(),
        );
        registry.register(
            "outbox_dispatch",
            "Events handed to the broker, by result",
            metrics.dispatched.clone(),
        );
        registry.register(
            "outbox_dispatch_latency_seconds",
            "From commit to the broker's acknowledgement",
            metrics.dispatch_latency.clone(),
        );
        registry.register(
            "outbox_dead",
            "Events that wait for an operator: rejected, or out of attempts",
            metrics.dead.clone(),
        );
        registry.register(
            "outbox_fetch_errors",
            "Failures of the replication stream and of queries on the side table",
            metrics.fetch_errors.clone(),
        );
        registry.register(
            "postrider_restarts",
            "Sessions that ended and were followed by another, by reason",
            metrics.restarts.clone(),
        );
        registry.register(
            "postrider_ignored_messages",
            "Changes that were received and are not published, by kind",
            metrics.ignored.clone(),
        );
        registry.register(
            "outbox_cleaned",
            "Rows that the cleaner deleted from the outbox tables",
            metrics.cleaned.clone(),
        );
        metrics
    }

    /// Old rows of a table were deleted.
    pub(crate) fn cleaned(&self, table: &str, rows: u64) {
        self.cleaned.get_or_create(&TableLabel { table: table.to_owned() }).inc_by(rows);
    }

    /// A session has ended, and another will follow.
    pub(crate) fn restarted(&self, reason: &'static str) {
        self.restarts.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// A change arrived that is not published.
    pub(crate) fn ignored(&self, kind: Ignored) {
        let kind = match kind {
            Ignored::Update => "update",
            Ignored::Delete => "delete",
            Ignored::Truncate => "truncate",
            Ignored::OtherTable => "other_table",
            Ignored::ForeignMessage => "foreign_message",
            Ignored::NonTransactionalMessage => "non_transactional_message",
            Ignored::MalformedMessage => "malformed_message",
        };
        self.ignored.get_or_create(&KindLabel { kind }).inc();
    }
}

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
