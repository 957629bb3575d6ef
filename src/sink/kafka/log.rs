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

use super::trouble::{Trouble, is_closed_early};
use crate::log_limit::LogLimit;
use postrider_core::delivery::Obstacle;

/// How often the same kind of problem is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// librdkafka repeats an error every 30 s while it lasts. An error that was not repeated has ended,
/// even if nothing was published that would prove it.
const STANDS_FOR: Duration = Duration::from_secs(45);

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
    /// Whether there is a problem. Read for every acknowledgement, so without a lock.
    troubled: AtomicBool,
    /// Off the data path: locked only when there is a problem.
    heard: Mutex<Heard>,
}

struct Heard {
    /// Of kinds of problems.
    log_limit: LogLimit,
    trouble: Option<(Trouble, Instant)>,
    cluster_denied: Option<Instant>,
}

impl ClientLog {
    pub(super) fn new(secrets: Vec<String>) -> Self {
        let span = Span::current();
        let log_limit = LogLimit::each(LOG_INTERVAL);
        let heard = Mutex::new(Heard { log_limit, trouble: None, cluster_denied: None });
        let troubled = AtomicBool::new(false);
        ClientLog { shared: Arc::new(Shared { span, secrets, troubled, heard }) }
    }

    /// The text without the secrets that it may contain.
    pub(super) fn scrub(&self, text: &str) -> String {
        let secrets = self.shared.secrets.iter();
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }

    pub(super) fn line(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let _span = self.shared.span.enter();
        let message = self.scrub(message);
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
        let message = without_thread(&message);
        match facility {
            // A closed connection does not cause an error event.
            "FAIL" if is_closed_early(message) => self.hear(Code::BrokerTransportFailure, message),
            // Users need no warning about a setting that they did not choose.
            "CONFWARN" if message.contains("enable.gapless.guarantee") => {}
            "CONFWARN" if self.lock().log_limit.allows(message, Instant::now()) => {
                tracing::warn!("kafka.properties: {message}");
            }
            _ => {}
        }
    }

    pub(super) fn trouble(&self, error: &KafkaError, reason: &str) {
        let _span = self.shared.span.enter();
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        self.hear(code, &self.scrub(reason));
    }

    fn hear(&self, code: Code, reason: &str) {
        let now = Instant::now();
        let trouble = Trouble::new(code, reason);
        let mut heard = self.lock();
        if heard.standing(now).is_some_and(|standing| standing.says_more_than(&trouble)) {
            return;
        }
        let kind = trouble.fix.map_or_else(|| format!("{code:?}"), str::to_owned);
        if heard.log_limit.allows(&kind, now) {
            tracing::warn!(reason = trouble.reason, fix = trouble.fix, "waiting for Kafka");
        }
        if code == Code::ClusterAuthorizationFailed {
            heard.cluster_denied = Some(now);
        }
        heard.trouble = Some((trouble, now));
        self.shared.troubled.store(true, Ordering::Relaxed);
    }

    /// What keeps us from the brokers, if an error was reported lately.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        if !self.shared.troubled.load(Ordering::Relaxed) {
            return None;
        }
        let heard = self.lock();
        let trouble = heard.standing(Instant::now())?;
        Some(Obstacle { text: trouble.text(), certain: trouble.certain })
    }

    /// Whether the brokers refused us as a producer altogether.
    pub(super) fn is_cluster_denied(&self) -> bool {
        let denied = self.lock().cluster_denied;
        denied.is_some_and(|at| at.elapsed() < STANDS_FOR)
    }

    /// A broker acknowledged something.
    pub(super) fn all_is_well(&self) {
        if self.shared.troubled.load(Ordering::Relaxed) {
            self.shared.troubled.store(false, Ordering::Relaxed);
            let mut heard = self.lock();
            heard.trouble = None;
            heard.cluster_denied = None;
            tracing::info!("Kafka accepts events again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn standing(&self, now: Instant) -> Option<&Trouble> {
        let (trouble, at) = self.trouble.as_ref()?;
        (now.duration_since(*at) < STANDS_FOR).then_some(trouble)
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
        self.line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble(&error, reason);
    }
}
