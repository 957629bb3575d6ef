//! The relay's state and gauges, shared between its loop and HTTP.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::registry::Registry;
use serde_json::json;

use super::relay_gauges::RelayGauges;
use super::state::{Condition, State};
use postrider_core::lsn::Lsn;
use postrider_core::parking::LiveTotal;

/// The answer of `/readyz` where there is nothing to explain.
pub(super) const READY: &str = "ready";

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
    gauges: RelayGauges,
    clock_difference_micros: AtomicI64,
    /// A position; the cleaner deletes rows only once it is stored.
    cleaner_waits_for: AtomicU64,
    /// Unfinished events of the side table, and when counting them began.
    side_table: Mutex<Option<(LiveTotal, Instant)>>,
    /// How often parked events of another slot were taken over.
    takeovers: AtomicI64,
    condition: Mutex<Condition>,
}

impl Vitals {
    /// Registers the gauges.
    pub(crate) fn register(slot_name: &str, registry: &mut Registry) -> Self {
        Vitals {
            slot_name: slot_name.to_owned(),
            gauges: RelayGauges::register(registry),
            clock_difference_micros: AtomicI64::new(0),
            cleaner_waits_for: AtomicU64::new(0),
            side_table: Mutex::new(None),
            takeovers: AtomicI64::new(0),
            condition: Mutex::new(Condition { state: State::Connecting, reason: None, fix: None }),
        }
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
        self.gauges.active.set(active.into());
        self.gauges.breaker_open.set((state == State::BreakerOpen).into());
        *self.lock() = condition;
    }

    /// What the relay is doing.
    pub(crate) fn state(&self) -> State {
        self.lock().state
    }

    /// What is in flight, and the age of its oldest commit.
    pub(crate) fn set_in_flight(&self, events: usize, bytes: usize, lag_seconds: f64) {
        self.gauges.in_flight_events.set(i64::try_from(events).unwrap_or(i64::MAX));
        self.gauges.in_flight_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.gauges.lag_seconds.set(lag_seconds);
    }

    /// The position was reported to the server.
    pub(crate) fn set_confirmed(&self, lsn: Lsn) {
        self.gauges.confirmed_lsn.set(lsn.bytes());
    }

    /// The confirmed position has advanced, or there was nothing to wait for.
    pub(crate) fn note_progress(&self) {
        self.gauges.last_progress.set(unix_seconds());
    }

    pub(crate) fn set_cleaner_waits_for(&self, lsn: Lsn) {
        self.cleaner_waits_for.store(lsn.bytes(), Relaxed);
    }

    pub(crate) fn cleaner_waits_for(&self) -> Lsn {
        Lsn::new(self.cleaner_waits_for.load(Relaxed))
    }

    /// By how much the server's clock is ahead of this machine's. Returns the previous value.
    pub(crate) fn set_clock_difference(&self, micros: i64) -> i64 {
        self.gauges.clock_difference.set(micros as f64 / 1e6);
        self.clock_difference_micros.swap(micros, Relaxed)
    }

    /// The slot as the server sees it.
    pub(crate) fn set_slot(&self, slot: SlotPosition) {
        self.gauges.retained_bytes.set(slot.retained_bytes);
        self.gauges.unconfirmed_bytes.set(slot.unconfirmed_bytes);
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
    pub(crate) fn why_no_progress(&self) -> Option<String> {
        let condition = self.lock().clone();
        let progress = matches!(condition.state, State::Streaming | State::CatchingUp);
        (!progress).then(|| condition.describe())
    }

    /// Whether the relay makes progress or is a healthy standby, and what there is to report.
    pub(crate) fn readiness(&self) -> (bool, String) {
        let condition = self.lock().clone();
        match condition.state {
            State::Streaming | State::CatchingUp | State::Snapshotting => (true, READY.to_owned()),
            state => (state == State::Standby, condition.describe()),
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
            "confirmed_lsn": Lsn::new(self.gauges.confirmed_lsn.get()).to_string(),
            "in_flight_events": self.gauges.in_flight_events.get(),
            "in_flight_bytes": self.gauges.in_flight_bytes.get(),
            "lag_seconds": self.gauges.lag_seconds.get(),
            "slot_retained_bytes": self.gauges.retained_bytes.get(),
            "slot_unconfirmed_bytes": self.gauges.unconfirmed_bytes.get(),
            "last_progress_timestamp_seconds": self.gauges.last_progress.get(),
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

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
