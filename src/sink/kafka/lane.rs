//! One producer, and what its threads report.

use std::time::Duration;

use rdkafka::Message;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc;

use super::delivery::{Delivery, Failure};
use super::log::ClientLog;
use super::options::KafkaOptions;
use postrider_core::delivery::{Broken, NotTaken, Outcome, Ticket};
use postrider_core::envelope::Record;

/// How records of a lane are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Batched and pipelined; a refusal stops everything after it.
    Fast,
    /// A group in flight per partition; see [`crate::sink::kafka::careful`].
    Careful,
}

/// A producer with its polling thread. Dropping it blocks: see
/// [`crate::sink::kafka::KafkaSink::stop`].
pub(super) struct Lane {
    producer: ThreadedProducer<Context>,
}

impl Lane {
    pub(super) fn open(
        kind: LaneKind,
        options: &KafkaOptions,
        log: &ClientLog,
        deliveries: mpsc::Sender<Delivery>,
    ) -> Result<Self, Broken> {
        let context = Context { kind, log: log.clone(), deliveries };
        ThreadedProducer::from_config_and_context(&options.producer(kind), context)
            .map(|producer| Lane { producer })
            .map_err(|error| {
                Broken::new(log.scrub(&format!("can't create a Kafka producer: {error}")))
            })
    }

    /// The cluster it is connected to, once a broker has reported it. Does not wait.
    pub(super) fn cluster_id(&self) -> Option<String> {
        self.producer.client().fetch_cluster_id(Duration::ZERO)
    }

    /// Sends nothing more. Does not wait: what is being sent at this moment can still arrive.
    pub(super) fn purge(&self) {
        self.producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
    }

    /// Without a partition, the key decides.
    pub(super) fn enqueue(
        &self,
        record: &Record<'_>,
        partition: Option<i32>,
        ticket: Ticket,
    ) -> Result<(), NotTaken> {
        let opaque = usize::try_from(ticket.number())
            .map_err(|_| NotTaken::Broken(Broken::new("the ticket number is too large")))?;
        let message = BaseRecord::<[u8], [u8], usize> {
            topic: record.topic,
            partition,
            payload: record.value.as_deref(),
            key: record.key,
            timestamp: Some(record.timestamp_ms),
            headers: Some(native_headers(record)),
            delivery_opaque: opaque,
        };
        self.producer.send(message).map_err(|(error, _)| self.not_taken(&error, record))
    }

    fn not_taken(&self, error: &KafkaError, record: &Record<'_>) -> NotTaken {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        if code == Code::QueueFull {
            return NotTaken::Busy;
        }
        // This is the client's own error, about this record alone.
        let failure = Failure::new(code, record.topic, error.to_string());
        match failure.outcome() {
            _ if !failure.is_refusal() => NotTaken::Broken(Broken::new(failure.detail)),
            Outcome::Reject(refusal) => NotTaken::Reject(refusal),
            Outcome::Retry(refusal) => NotTaken::Retry(refusal),
            Outcome::Ok | Outcome::Blocked => NotTaken::Broken(Broken::new(failure.detail)),
        }
    }
}

fn native_headers(record: &Record<'_>) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(record.headers.len());
    record.headers.iter().fold(headers, |headers, header| {
        headers.insert(Header { key: header.name.as_ref(), value: header.value.as_deref() })
    })
}

/// Receives librdkafka's callbacks on its polling thread.
struct Context {
    kind: LaneKind,
    log: ClientLog,
    deliveries: mpsc::Sender<Delivery>,
}

impl Context {
    /// Why, with the fix if an earlier error has one.
    fn fatal_text(&self, reason: &str) -> String {
        match self.log.obstacle() {
            Some(obstacle) if obstacle.certain => obstacle.text,
            _ => format!("the Kafka producer failed: {}", self.log.scrub(reason)),
        }
    }

    fn report(&self, ticket: Option<Ticket>, failure: Option<Box<Failure>>) {
        // Never full: it has space for everything in flight and for errors, and the first error
        // ends the session. Closed: the session has ended, and nobody needs the report.
        let _ = self.deliveries.try_send(Delivery { lane: self.kind, ticket, failure });
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        let ticket = Some(Ticket::from_number(ticket as u64));
        match result {
            Ok(_) => self.report(ticket, None),
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                let failure = Failure::new(code, message.topic(), error.to_string());
                self.report(ticket, Some(Box::new(failure)));
            }
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log_line(level, facility, message);
        // The brokers now belong to another cluster: the session restarts, and a new producer,
        // which has not sent anything yet, finds out which one it is.
        if facility == "CLUSTERID" && matches!(level, RDKafkaLogLevel::Warning) {
            let failure = Failure::new(Code::Fatal, "", self.log.scrub(message));
            self.report(None, Some(Box::new(failure)));
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(Code::Fatal) => {}
            // Raised in addition to a refusal, which is reported with its record: the connection is
            // fine.
            Some(Code::GaplessGuarantee) => return,
            _ => return self.log.log_error(&error, reason),
        }
        let failure = Failure::new(Code::Fatal, "", self.fatal_text(reason));
        self.report(None, Some(Box::new(failure)));
    }
}
