//! What happens between two sessions: the pause, and what is logged about it.

use std::time::{Duration, Instant};

use crate::ops::{Metrics, State, Vitals};
use crate::session_end::{Restart, RestartReason};
use crate::sink::Sink;
use crate::standby;

const BACKOFF_BASE: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How often to check whether another instance is done with the rows of the tables.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// How often the same trouble is logged.
const LOG_AGAIN: Duration = Duration::from_secs(60);
/// After a session that lasted this long the backoff starts from the beginning.
const GOOD_SESSION: Duration = Duration::from_secs(10);

/// Sessions that failed, and what was logged of them.
#[derive(Default)]
pub(crate) struct Restarts {
    failures: u32,
    /// The trouble that was logged last, and when.
    last_logged: Option<(String, Instant)>,
    /// The last session broke at the broker, which was logged: the start of the next one need not be.
    is_quiet: bool,
}

impl Restarts {
    /// Whether the start of the next session need not be logged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Notes that a session ended, and returns how long to wait before the next.
    pub(crate) fn note(
        &mut self,
        restart: &Restart,
        lasted: Duration,
        sink: &impl Sink,
        metrics: &Metrics,
        vitals: &Vitals,
    ) -> Duration {
        metrics.restarted(restart.reason.label());
        if restart.reason == RestartReason::Postgres {
            metrics.fetch_errors.inc();
        }
        vitals.set_in_flight(0, 0, 0.0);
        let elsewhere = restart.reason == RestartReason::BackfillElsewhere;
        let text = &restart.text;
        let (state, reason) = match standby::publishing_obstacle(sink) {
            _ if !elsewhere => (State::Connecting, text.clone()),
            None => (State::Standby, text.clone()),
            Some(obstacle) => (State::StandbyBlocked, format!("{text}; {obstacle}")),
        };
        vitals.set_state(state, Some(reason));
        self.log(restart);
        // After a refusal one more topic is in the careful lane: that is progress, not failure.
        let is_failure = restart.reason != RestartReason::Refused;
        if lasted > GOOD_SESSION {
            self.failures = 0;
        }
        let failures = if is_failure { self.failures } else { 0 };
        self.failures = self.failures.saturating_add(u32::from(is_failure));
        if elsewhere {
            return CHECK_AGAIN;
        }
        let delay = BACKOFF_BASE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
        delay.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// The same trouble is logged once in a while only.
    fn log(&mut self, restart: &Restart) {
        let is_repeated = self
            .last_logged
            .as_ref()
            .is_some_and(|(text, at)| *text == restart.text && at.elapsed() < LOG_AGAIN);
        self.is_quiet = is_repeated && restart.reason == RestartReason::Broker;
        if !is_repeated {
            let (kind, reason) = (restart.reason.label(), &restart.text);
            tracing::warn!(kind, reason, "restarting from the stored position");
            self.last_logged = Some((restart.text.clone(), Instant::now()));
        }
    }
}
