//! What librdkafka has to say, at a volume people can bear.
//!
//! A broker that is away makes librdkafka complain many times a second, in its log and as error
//! events. The log lines go to level debug; the events are told, each kind twice a minute at most.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// How often the same kind of trouble is told.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// The log of one client.
#[derive(Default)]
pub(super) struct ClientLog {
    /// Off the data path: locked when there is trouble.
    told: Mutex<HashMap<i32, Instant>>,
}

impl ClientLog {
    pub(super) fn line(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
    }

    pub(super) fn trouble(&self, error: &KafkaError, reason: &str) {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail) as i32;
        let last = told.get(&kind);
        if last.is_none_or(|last| now.duration_since(*last) >= TELL_EVERY) {
            told.insert(kind, now);
            tracing::warn!(reason, "Kafka: {error}");
        }
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
