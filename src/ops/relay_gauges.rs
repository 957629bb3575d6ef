//! The gauges of one relay. Names are a contract with dashboards.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Default)]
pub(super) struct RelayGauges {
    pub(super) active: Gauge,
    pub(super) confirmed_lsn: Gauge<u64, AtomicU64>,
    pub(super) in_flight_events: Gauge,
    pub(super) in_flight_bytes: Gauge,
    pub(super) lag_seconds: Gauge<f64, AtomicU64>,
    pub(super) retained_bytes: Gauge<i64, AtomicI64>,
    pub(super) unconfirmed_bytes: Gauge<i64, AtomicI64>,
    pub(super) last_progress: Gauge<f64, AtomicU64>,
    pub(super) clock_difference: Gauge<f64, AtomicU64>,
    pub(super) breaker_open: Gauge,
}

impl RelayGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gauges = RelayGauges::default();
        registry.register(
            "postrider_active",
            "1 while this instance holds the slot",
            gauges.active.clone(),
        );
        registry.register(
            "postrider_confirmed_lsn",
            "Confirmed position as a byte count",
            gauges.confirmed_lsn.clone(),
        );
        registry.register(
            "postrider_in_flight_events",
            "Events that were read and are not yet acknowledged or parked",
            gauges.in_flight_events.clone(),
        );
        registry.register(
            "postrider_in_flight_bytes",
            "Bytes of the events in flight",
            gauges.in_flight_bytes.clone(),
        );
        registry.register(
            "postrider_lag_seconds",
            "Age of the oldest unconfirmed commit",
            gauges.lag_seconds.clone(),
        );
        registry.register(
            "postrider_slot_retained_bytes",
            "WAL the server keeps for the slot",
            gauges.retained_bytes.clone(),
        );
        registry.register(
            "postrider_slot_unconfirmed_bytes",
            "WAL after the confirmed position",
            gauges.unconfirmed_bytes.clone(),
        );
        registry.register(
            "postrider_last_progress_timestamp_seconds",
            "When the confirmed position last advanced, or there was nothing to wait for",
            gauges.last_progress.clone(),
        );
        registry.register(
            "postrider_clock_difference_seconds",
            "By how much the database server's clock is ahead of this machine's",
            gauges.clock_difference.clone(),
        );
        registry.register(
            "postrider_breaker_open",
            "1 while too many events can't be published and no more are parked",
            gauges.breaker_open.clone(),
        );
        gauges
    }
}
