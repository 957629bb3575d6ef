//! What happens between two sessions: the pause, and what is logged about it.

use std::time::{Duration, Instant};

use crate::log_limit::LogLimit;
use crate::ops::{Metrics, State, Vitals};
use crate::retry::RetryPause;
use crate::session_end::{Restart, RestartReason};
use crate::sink::Sink;
use crate::standby;

const PAUSE_BASE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often to check whether another instance is done with the rows of the tables.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// How often the same trouble is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// After a session that lasted longer than this, the pauses begin with the shortest again.
const GOOD_SESSION: Duration = Duration::from_secs(10);

/// Sessions that failed, and what was logged of them.
pub(crate) struct Restarts {
    pause: RetryPause,
    log_limit: LogLimit,
    /// The last session broke at the broker, which was logged: the start of the next one need not
    /// be.
    is_quiet: bool,
}

impl Default for Restarts {
    fn default() -> Self {
        Restarts {
            pause: RetryPause::new(PAUSE_BASE, PAUSE_MAX, GOOD_SESSION),
            log_limit: LogLimit::changes(LOG_INTERVAL),
            is_quiet: false,
        }
    }
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
        let pause = match restart.reason {
            RestartReason::Refused => self.pause.after_progress(lasted),
            _ => self.pause.after_failure(lasted),
        };
        if elsewhere { CHECK_AGAIN } else { pause }
    }

    /// The same trouble is logged once in a while only.
    fn log(&mut self, restart: &Restart) {
        let is_repeated = !self.log_limit.allows(&restart.text, Instant::now());
        self.is_quiet = is_repeated && restart.reason == RestartReason::Broker;
        if !is_repeated {
            let (kind, reason) = (restart.reason.label(), &restart.text);
            tracing::warn!(kind, reason, "restarting from the stored position");
        }
    }
}
