//! The relay's state, shared between its loop and whoever asks.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use serde_json::json;

use postrider_core::lsn::Lsn;
use postrider_core::parking::LiveTotal;

/// What the relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// On its way to Postgres.
    Connecting,
    /// Publishing rows that are in the tables already.
    Snapshotting,
    /// Publishing events as they are committed.
    Streaming,
    /// Publishing a backlog.
    CatchingUp,
    /// Events are in flight and the broker acknowledges none.
    BlockedOnBroker,
    /// Postgres does not store how far the relay has come.
    BlockedOnPostgres,
    /// Too much can't be published: nothing more is parked.
    BreakerOpen,
    /// Ready, and waiting for the slot, which another has.
    Standby,
    /// Waiting for the slot as well, and of no use with it: it reads less than was promised, or reaches no
    /// broker.
    StandbyInVain,
    /// Told to read nothing.
    Paused,
    /// On its way out.
    Stopping,
}

impl State {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 11] = [
        State::Connecting,
        State::Snapshotting,
        State::Streaming,
        State::CatchingUp,
        State::BlockedOnBroker,
        State::BlockedOnPostgres,
        State::BreakerOpen,
        State::Standby,
        State::StandbyInVain,
        State::Paused,
        State::Stopping,
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
            State::Standby | State::StandbyInVain => "standby",
            State::Paused => "paused",
            State::Stopping => "stopping",
        }
    }
}

/// The slot as the server sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlotPosition {
    /// WAL the server keeps for the slot.
    pub retained_bytes: i64,
    /// WAL behind the confirmed position.
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
    /// A position that somebody waits for.
    awaited: AtomicU64,
    breaker_open: Gauge,
    /// Bytes of parked events, and when they began to be counted.
    side_table: Mutex<Option<(LiveTotal, Instant)>>,
    /// How often parked events of another slot were taken over.
    takeovers: AtomicI64,
    state: Mutex<(State, Option<String>)>,
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
            state: Mutex::new((State::Connecting, None)),
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
            "Events at the broker and not acknowledged",
            vitals.in_flight_events.clone(),
        );
        registry.register(
            "postrider_in_flight_bytes",
            "Their bytes",
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
            "WAL behind the confirmed position",
            vitals.unconfirmed_bytes.clone(),
        );
        registry.register(
            "postrider_last_progress_timestamp_seconds",
            "When the confirmed position last moved or had nothing to move to",
            vitals.last_progress.clone(),
        );
        registry.register(
            "postrider_clock_difference_seconds",
            "By how much the database server's clock is ahead of this machine's",
            vitals.clock_difference.clone(),
        );
        registry.register(
            "postrider_breaker_open",
            "1 while too much can't be published and nothing more is parked",
            vitals.breaker_open.clone(),
        );
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        registry.register("postrider_build", "What runs", Info::new(version));
        registry.register_collector(Box::new(crate::ops::process::ProcessCollector));
        vitals
    }

    /// The relay is in this state; the reason is for people.
    pub(crate) fn set_state(&self, state: State, reason: Option<String>) {
        let active = !matches!(
            state,
            State::Connecting | State::Standby | State::StandbyInVain | State::Paused
        );
        self.active.set(active.into());
        self.breaker_open.set((state == State::BreakerOpen).into());
        *self.lock() = (state, reason);
    }

    /// What the relay is doing.
    pub(crate) fn state(&self) -> State {
        self.lock().0
    }

    /// What is in flight and how far behind the oldest of it is.
    pub(crate) fn set_in_flight(&self, events: usize, bytes: usize, lag_seconds: f64) {
        self.in_flight_events.set(i64::try_from(events).unwrap_or(i64::MAX));
        self.in_flight_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.lag_seconds.set(lag_seconds);
    }

    /// The position was told to the server; `progress` if it moved or there was nothing to do.
    pub(crate) fn confirmed(&self, lsn: Lsn, progress: bool) {
        self.confirmed_lsn.set(lsn.bytes());
        if progress {
            self.last_progress.set(unix_seconds());
        }
    }

    /// Somebody waits until the stored position has come so far.
    pub(crate) fn set_awaited(&self, lsn: Lsn) {
        self.awaited.store(lsn.bytes(), Relaxed);
    }

    /// The same, for those who move it.
    pub(crate) fn awaited(&self) -> Lsn {
        Lsn::new(self.awaited.load(Relaxed))
    }

    /// By how much the server's clock is ahead of this machine's; gives back what was known before.
    pub(crate) fn set_clock_difference(&self, micros: i64) -> i64 {
        self.clock_difference.set(micros as f64 / 1e6);
        self.clock_difference_micros.swap(micros, Relaxed)
    }

    /// What the server says about the slot.
    pub(crate) fn set_slot(&self, slot: SlotPosition) {
        self.retained_bytes.set(slot.retained_bytes);
        self.unconfirmed_bytes.set(slot.unconfirmed_bytes);
    }

    /// What the side table had that is not done, when that began to be counted.
    pub(crate) fn set_side_table(&self, live: LiveTotal, began: Instant) {
        let mut side_table = self.side_table.lock().unwrap_or_else(PoisonError::into_inner);
        *side_table = Some((live, began));
    }

    /// The same, if it is known.
    pub(crate) fn side_table(&self) -> Option<(LiveTotal, Instant)> {
        *self.side_table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often parked events of another slot were taken over, as far as it is known.
    pub(crate) fn set_takeovers(&self, takeovers: i64) {
        self.takeovers.store(takeovers, Relaxed);
    }

    /// The same.
    pub(crate) fn takeovers(&self) -> i64 {
        self.takeovers.load(Relaxed)
    }

    /// None if the relay makes progress, else why not.
    pub(crate) fn trouble(&self) -> Option<String> {
        let (state, reason) = self.lock().clone();
        let progress = matches!(state, State::Streaming | State::CatchingUp);
        (!progress).then(|| in_words(state, reason))
    }

    /// Whether the relay makes progress or is a healthy standby, and what to say about it.
    pub(crate) fn readiness(&self) -> (bool, String) {
        let (state, reason) = self.lock().clone();
        match state {
            State::Streaming | State::CatchingUp | State::Snapshotting => {
                (true, "ready".to_owned())
            }
            _ => (state == State::Standby, in_words(state, reason)),
        }
    }

    /// For `/status`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let (state, reason) = self.lock().clone();
        json!({
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
        })
    }

    /// Off the data path: locked when the state changes and when somebody asks.
    fn lock(&self) -> std::sync::MutexGuard<'_, (State, Option<String>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_words(state: State, reason: Option<String>) -> String {
    match reason {
        Some(reason) => format!("{}: {reason}", state.name()),
        None => state.name().to_owned(),
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
