//! librdkafka's log lines and errors, at a volume that people can bear.
//!
//! An unreachable broker makes librdkafka complain many times a second, in its log and as error
//! events. The log lines go to level debug; the events are logged as warnings, each kind at most
//! once a minute. The last problem is kept, so that the relay can report why nothing is published.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use tracing::Span;

use super::obstacle::{ClientError, is_closed_early};
use crate::log_limit::LogLimit;
use postrider_core::delivery::Obstacle;

/// How often the same kind of problem is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// librdkafka repeats an error every 30 s while it lasts. An error that was not repeated has ended,
/// even if nothing was published that would prove it.
const ERROR_LASTS: Duration = Duration::from_secs(45);

/// The log of all clients of the sink, whose threads share it.
#[derive(Clone)]
pub(super) struct ClientLog {
    shared: Arc<Shared>,
}

struct Shared {
    /// Names the relay in what these threads log, if there are several.
    span: Span,
    /// Values that must not appear in any line.
    secrets: Vec<String>,
    /// Whether there is an error. Read for every acknowledgement, so without a lock.
    has_error: AtomicBool,
    /// Off the data path: locked only when there is an error.
    state: Mutex<LogState>,
}

struct LogState {
    /// Of kinds of problems.
    log_limit: LogLimit,
    last_error: Option<(ClientError, Instant)>,
    cluster_denied: Option<Instant>,
}

impl ClientLog {
    pub(super) fn new(secrets: Vec<String>) -> Self {
        let span = Span::current();
        let log_limit = LogLimit::each(LOG_INTERVAL);
        let state = Mutex::new(LogState { log_limit, last_error: None, cluster_denied: None });
        let has_error = AtomicBool::new(false);
        ClientLog { shared: Arc::new(Shared { span, secrets, has_error, state }) }
    }

    /// The text without the secrets that it may contain.
    pub(super) fn scrub(&self, text: &str) -> String {
        let secrets = self.shared.secrets.iter();
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }

    pub(super) fn log_line(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let _span = self.shared.span.enter();
        let message = self.scrub(message);
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
        let message = without_thread(&message);
        match facility {
            // A closed connection does not cause an error event.
            "FAIL" if is_closed_early(message) => {
                self.note_error(Code::BrokerTransportFailure, message)
            }
            // Users need no warning about a setting that they did not choose.
            "CONFWARN" if message.contains("enable.gapless.guarantee") => {}
            "CONFWARN" if self.lock().log_limit.allows(message, Instant::now()) => {
                tracing::warn!("kafka.properties: {message}");
            }
            _ => {}
        }
    }

    pub(super) fn log_error(&self, error: &KafkaError, reason: &str) {
        let _span = self.shared.span.enter();
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        self.note_error(code, &self.scrub(reason));
    }

    fn note_error(&self, code: Code, reason: &str) {
        let now = Instant::now();
        let error = ClientError::new(code, reason);
        let mut state = self.lock();
        if state.current(now).is_some_and(|current| current.is_clearer_than(&error)) {
            return;
        }
        let kind = error.fix.map_or_else(|| format!("{code:?}"), str::to_owned);
        if state.log_limit.allows(&kind, now) {
            tracing::warn!(reason = error.reason, fix = error.fix, "waiting for Kafka");
        }
        if code == Code::ClusterAuthorizationFailed {
            state.cluster_denied = Some(now);
        }
        state.last_error = Some((error, now));
        self.shared.has_error.store(true, Ordering::Relaxed);
    }

    /// What keeps us from the brokers, if an error was reported lately.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        if !self.shared.has_error.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.lock();
        let error = state.current(Instant::now())?;
        Some(Obstacle { text: error.text(), certain: error.certain })
    }

    /// Whether the brokers refused us as a producer altogether.
    pub(super) fn is_cluster_denied(&self) -> bool {
        let denied = self.lock().cluster_denied;
        denied.is_some_and(|at| at.elapsed() < ERROR_LASTS)
    }

    /// A broker acknowledged something.
    pub(super) fn clear_error(&self) {
        if self.shared.has_error.load(Ordering::Relaxed) {
            self.shared.has_error.store(false, Ordering::Relaxed);
            let mut state = self.lock();
            state.last_error = None;
            state.cluster_denied = None;
            tracing::info!("Kafka accepts events again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn current(&self, now: Instant) -> Option<&ClientError> {
        let (error, at) = self.last_error.as_ref()?;
        (now.duration_since(*at) < ERROR_LASTS).then_some(error)
    }
}

/// librdkafka begins its lines with the name of the thread.
fn without_thread(message: &str) -> &str {
    match message.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")) {
        Some((_, message)) => message,
        None => message,
    }
}

impl ClientContext for ClientLog {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.log_error(&error, reason);
    }
}
