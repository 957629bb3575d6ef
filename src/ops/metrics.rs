//! The metrics of the hot path. Names are a contract with dashboards.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::parked::ParkedMetrics;

/// From a millisecond to a minute.
const LATENCY_BUCKETS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) table: String,
    pub(super) topic: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) table: String,
    pub(super) topic: String,
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ClassLabels {
    pub(super) table: String,
    pub(super) topic: String,
    pub(super) class: &'static str,
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
    pub(super) published: Family<RouteLabels, Counter>,
    pub(super) publish_errors: Family<ClassLabels, Counter>,
    pub(super) dispatched: Family<ResultLabels, Counter>,
    pub(super) dispatch_latency: Family<ResultLabels, Histogram>,
    pub(super) dead: Family<RouteLabels, Counter>,
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
