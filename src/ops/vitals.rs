//! The relay's state, shared between its loop and HTTP.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::json;

use postrider_core::lsn::Lsn;
use postrider_core::parking::LiveTotal;

/// The answer of `/readyz` where there is nothing to explain.
pub(super) const READY: &str = "ready";

/// What the relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Connecting to Postgres.
    Connecting,
    /// Publishing rows that are in the tables already.
    Snapshotting,
    /// Publishing events as they are committed.
    Streaming,
    /// Publishing a backlog.
    CatchingUp,
    /// Events are in flight and the broker acknowledges none.
    BlockedOnBroker,
    /// Postgres does not store the position.
    BlockedOnPostgres,
    /// Too many events can't be published: no more are parked.
    BreakerOpen,
    /// Ready, and waiting for the slot, which another instance has.
    Standby,
    /// Waiting for the slot, but unable to take over: it reads less than was promised, or reaches
    /// no broker.
    StandbyBlocked,
    /// Configured to read nothing.
    Paused,
    /// Draining what is in flight before it ends.
    Stopping,
    /// It has ended, as it was asked to.
    Stopped,
    /// It has ended, because an operator is needed.
    Failed,
}

impl State {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 13] = [
        State::Connecting,
        State::Snapshotting,
        State::Streaming,
        State::CatchingUp,
        State::BlockedOnBroker,
        State::BlockedOnPostgres,
        State::BreakerOpen,
        State::Standby,
        State::StandbyBlocked,
        State::Paused,
        State::Stopping,
        State::Stopped,
        State::Failed,
    ];

    /// The name people see.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Connecting => "connecting",
            State::Snapshotting => "snapshotting",
            State::Streaming => "streaming",
            State::CatchingUp => "catching-up",
            State::BlockedOnBroker => "blocked-on-broker",
            State::BlockedOnPostgres => "blocked-on-postgres",
            State::BreakerOpen => "breaker-open",
            State::Standby | State::StandbyBlocked => "standby",
            State::Paused => "paused",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }

    /// Whether the relay does nothing more.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, State::Stopped | State::Failed)
    }
}

/// The slot as the server sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlotPosition {
    /// WAL the server keeps for the slot.
    pub retained_bytes: i64,
    /// WAL after the confirmed position.
    pub unconfirmed_bytes: i64,
    /// WAL that can still be written before the slot may be lost, if there is a limit.
    pub safe_bytes: Option<i64>,
}

/// Gauges and the state. Written by the loop, read by HTTP.
pub(crate) struct Vitals {
    slot_name: String,
    active: Gauge,
    confirmed_lsn: Gauge<u64, AtomicU64>,
    in_flight_events: Gauge,
    in_flight_bytes: Gauge,
    lag_seconds: Gauge<f64, AtomicU64>,
    retained_bytes: Gauge<i64, AtomicI64>,
    unconfirmed_bytes: Gauge<i64, AtomicI64>,
    last_progress: Gauge<f64, AtomicU64>,
    clock_difference: Gauge<f64, AtomicU64>,
    clock_difference_micros: AtomicI64,
    /// A position that the cleaner waits for.
    awaited: AtomicU64,
    breaker_open: Gauge,
    /// Unfinished events of the side table, and when counting them began.
    side_table: Mutex<Option<(LiveTotal, Instant)>>,
    /// How often parked events of another slot were taken over.
    takeovers: AtomicI64,
    condition: Mutex<Condition>,
}

/// The state, with what people need to know about it.
#[derive(Clone)]
struct Condition {
    state: State,
    reason: Option<String>,
    /// What an operator has to do.
    fix: Option<String>,
}

impl Vitals {
    /// Registers the gauges.
    pub(crate) fn register(slot_name: &str, registry: &mut Registry) -> Self {
        let vitals = Vitals {
            slot_name: slot_name.to_owned(),
            active: Gauge::default(),
            confirmed_lsn: Gauge::default(),
            in_flight_events: Gauge::default(),
            in_flight_bytes: Gauge::default(),
            lag_seconds: Gauge::default(),
            retained_bytes: Gauge::default(),
            unconfirmed_bytes: Gauge::default(),
            last_progress: Gauge::default(),
            clock_difference: Gauge::default(),
            clock_difference_micros: AtomicI64::new(0),
            awaited: AtomicU64::new(0),
            breaker_open: Gauge::default(),
            side_table: Mutex::new(None),
            takeovers: AtomicI64::new(0),
            condition: Mutex::new(Condition { state: State::Connecting, reason: None, fix: None }),
        };
        registry.register(
            "postrider_active",
            "1 while this instance holds the slot",
            vitals.active.clone(),
        );
        registry.register(
            "postrider_confirmed_lsn",
            "Confirmed position as a byte count",
            vitals.confirmed_lsn.clone(),
        );
        registry.register(
            "postrider_in_flight_events",
            "Events that were read and are not yet acknowledged or parked",
            vitals.in_flight_events.clone(),
        );
        registry.register(
            "postrider_in_flight_bytes",
            "Bytes of the events in flight",
            vitals.in_flight_bytes.clone(),
        );
        registry.register(
            "postrider_lag_seconds",
            "Age of the oldest unconfirmed commit",
            vitals.lag_seconds.clone(),
        );
        registry.register(
            "postrider_slot_retained_bytes",
            "WAL the server keeps for the slot",
            vitals.retained_bytes.clone(),
        );
        registry.register(
            "postrider_slot_unconfirmed_bytes",
            "WAL after the confirmed position",
            vitals.unconfirmed_bytes.clone(),
        );
        registry.register(
            "postrider_last_progress_timestamp_seconds",
            "When the confirmed position last advanced, or there was nothing to wait for",
            vitals.last_progress.clone(),
        );
        registry.register(
            "postrider_clock_difference_seconds",
            "By how much the database server's clock is ahead of this machine's",
            vitals.clock_difference.clone(),
        );
        registry.register(
            "postrider_breaker_open",
            "1 while too many events can't be published and no more are parked",
            vitals.breaker_open.clone(),
        );
        vitals
    }

    /// The relay is in this state; the reason is for people.
    pub(crate) fn set_state(&self, state: State, reason: Option<String>) {
        self.set_condition(Condition { state, reason, fix: None });
    }

    /// The relay has ended, as it was asked to.
    pub(crate) fn stopped(&self, reason: &str) {
        self.set_state(State::Stopped, Some(reason.to_owned()));
        self.set_in_flight(0, 0, 0.0);
    }

    /// The relay has ended, and an operator has to do something.
    pub(crate) fn failed(&self, reason: &str, fix: &str) {
        let (reason, fix) = (Some(reason.to_owned()), Some(fix.to_owned()));
        self.set_condition(Condition { state: State::Failed, reason, fix });
        self.set_in_flight(0, 0, 0.0);
    }

    fn set_condition(&self, condition: Condition) {
        let state = condition.state;
        let active = !matches!(
            state,
            State::Connecting
                | State::Standby
                | State::StandbyBlocked
                | State::Paused
                | State::Stopped
                | State::Failed
        );
        self.active.set(active.into());
        self.breaker_open.set((state == State::BreakerOpen).into());
        *self.lock() = condition;
    }

    /// What the relay is doing.
    pub(crate) fn state(&self) -> State {
        self.lock().state
    }

    /// What is in flight, and the age of its oldest commit.
    pub(crate) fn set_in_flight(&self, events: usize, bytes: usize, lag_seconds: f64) {
        self.in_flight_events.set(i64::try_from(events).unwrap_or(i64::MAX));
        self.in_flight_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.lag_seconds.set(lag_seconds);
    }

    /// The position was reported to the server; `progress`: it advanced, or there was nothing to
    /// wait for.
    pub(crate) fn confirmed(&self, lsn: Lsn, progress: bool) {
        self.confirmed_lsn.set(lsn.bytes());
        if progress {
            self.last_progress.set(unix_seconds());
        }
    }

    /// The cleaner waits until this position is stored.
    pub(crate) fn set_awaited(&self, lsn: Lsn) {
        self.awaited.store(lsn.bytes(), Relaxed);
    }

    /// The position that the cleaner waits for.
    pub(crate) fn awaited(&self) -> Lsn {
        Lsn::new(self.awaited.load(Relaxed))
    }

    /// By how much the server's clock is ahead of this machine's; returns the previous value.
    pub(crate) fn set_clock_difference(&self, micros: i64) -> i64 {
        self.clock_difference.set(micros as f64 / 1e6);
        self.clock_difference_micros.swap(micros, Relaxed)
    }

    /// The slot as the server sees it.
    pub(crate) fn set_slot(&self, slot: SlotPosition) {
        self.retained_bytes.set(slot.retained_bytes);
        self.unconfirmed_bytes.set(slot.unconfirmed_bytes);
    }

    /// The unfinished events of the side table, and when counting them began.
    pub(crate) fn set_side_table(&self, live: LiveTotal, began: Instant) {
        let mut side_table = self.side_table.lock().unwrap_or_else(PoisonError::into_inner);
        *side_table = Some((live, began));
    }

    /// The unfinished events of the side table, if they are known.
    pub(crate) fn side_table(&self) -> Option<(LiveTotal, Instant)> {
        *self.side_table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often parked events of another slot were taken over, as far as is known.
    pub(crate) fn set_takeovers(&self, takeovers: i64) {
        self.takeovers.store(takeovers, Relaxed);
    }

    /// How often parked events of another slot were taken over, as far as is known.
    pub(crate) fn takeovers(&self) -> i64 {
        self.takeovers.load(Relaxed)
    }

    /// None if the relay makes progress, else why not.
    pub(crate) fn trouble(&self) -> Option<String> {
        let condition = self.lock().clone();
        let progress = matches!(condition.state, State::Streaming | State::CatchingUp);
        (!progress).then(|| in_words(condition))
    }

    /// Whether the relay makes progress or is a healthy standby, and what there is to report.
    pub(crate) fn readiness(&self) -> (bool, String) {
        let condition = self.lock().clone();
        match condition.state {
            State::Streaming | State::CatchingUp | State::Snapshotting => (true, READY.to_owned()),
            state => (state == State::Standby, in_words(condition)),
        }
    }

    /// For `/status`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let Condition { state, reason, fix } = self.lock().clone();
        let mut status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": state.name(),
            "reason": reason,
            "slot": self.slot_name,
            "confirmed_lsn": Lsn::new(self.confirmed_lsn.get()).to_string(),
            "in_flight_events": self.in_flight_events.get(),
            "in_flight_bytes": self.in_flight_bytes.get(),
            "lag_seconds": self.lag_seconds.get(),
            "slot_retained_bytes": self.retained_bytes.get(),
            "slot_unconfirmed_bytes": self.unconfirmed_bytes.get(),
            "last_progress_timestamp_seconds": self.last_progress.get(),
        });
        // Only a relay that has ended has one.
        if let (Some(fix), Some(fields)) = (fix, status.as_object_mut()) {
            fields.insert("fix".to_owned(), fix.into());
        }
        status
    }

    /// Off the data path: locked when the state changes, and for HTTP requests.
    fn lock(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_words(condition: Condition) -> String {
    let mut words = condition.state.name().to_owned();
    if let Some(reason) = condition.reason {
        words.push_str(&format!(": {reason}"));
    }
    if let Some(fix) = condition.fix {
        words.push_str(&format!("; fix: {fix}"));
    }
    words
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
