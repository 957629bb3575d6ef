//! One producer and its delivery reports.

use rdkafka::Message;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc;

use super::classify::{Meaning, meaning};
use super::log::ClientLog;
use super::{Broken, NotTaken, Refusal, Report, Settings, Verdict};
use crate::ack::Ticket;
use crate::envelope::{ID_HEADER, Record};

/// How records of a lane are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Batched and pipelined; a refusal stops everything behind it.
    Fast,
    /// One record in flight per topic; a refusal speaks about that record.
    Careful,
}

/// What librdkafka says, from its thread to ours.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) lane: LaneKind,
    /// None: it is about the producer as a whole.
    pub(super) ticket: Option<Ticket>,
    failure: Option<Box<Failure>>,
}

#[derive(Debug)]
struct Failure {
    meaning: Meaning,
    topic: String,
    id: Option<String>,
    reason: String,
}

impl Delivery {
    pub(super) fn into_report(self) -> Report {
        match (self.ticket, self.failure) {
            (Some(ticket), None) => Report::Done(ticket),
            (Some(ticket), Some(failure)) => match failure.verdict(self.lane) {
                None => Report::Broken(Broken(failure.reason)),
                Some(verdict) => Report::Refused(ticket, Box::new(failure.into_refusal(verdict))),
            },
            (None, Some(failure)) => Report::Broken(Broken(failure.reason)),
            (None, None) => Report::Broken(Broken("a report about nothing".to_owned())),
        }
    }
}

impl Failure {
    fn verdict(&self, lane: LaneKind) -> Option<Verdict> {
        match (self.meaning, lane) {
            (Meaning::Broken, _) => None,
            (_, LaneKind::Fast) => Some(Verdict::Suspect),
            (Meaning::Retryable, LaneKind::Careful) => Some(Verdict::Retryable),
            (Meaning::Rejected, LaneKind::Careful) => Some(Verdict::Rejected),
        }
    }

    fn into_refusal(self, verdict: Verdict) -> Refusal {
        Refusal { topic: self.topic, id: self.id, reason: self.reason, verdict }
    }
}

/// A producer with its polling thread. Dropping it blocks: see [`super::KafkaSink::restart`].
pub(super) struct Lane {
    kind: LaneKind,
    producer: ThreadedProducer<Context>,
}

impl Lane {
    pub(super) fn open(
        kind: LaneKind,
        settings: &Settings,
        log: &ClientLog,
        deliveries: mpsc::Sender<Delivery>,
    ) -> Result<Self, Broken> {
        let context = Context { kind, log: log.clone(), deliveries };
        ThreadedProducer::from_config_and_context(&settings.producer(kind), context)
            .map(|producer| Lane { kind, producer })
            .map_err(|error| Broken(log.scrub(&format!("can't make a Kafka producer: {error}"))))
    }

    pub(super) fn enqueue(&self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        let opaque = usize::try_from(ticket.number())
            .map_err(|_| NotTaken::Broken(Broken("tickets ran out".to_owned())))?;
        let message = BaseRecord::<[u8], [u8], usize> {
            topic: record.topic,
            partition: record.partition,
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
        let id = record.headers.iter().find(|header| header.name == ID_HEADER);
        let failure = Failure {
            meaning: meaning(code),
            topic: record.topic.to_owned(),
            id: id
                .and_then(|header| header.value.as_deref())
                .map(|id| String::from_utf8_lossy(id).into_owned()),
            reason: error.to_string(),
        };
        // The client itself speaks here, about this record alone: its size is known for sure.
        let verdict = match code {
            Code::MessageSizeTooLarge => Some(Verdict::Rejected),
            _ => failure.verdict(self.kind),
        };
        match verdict {
            Some(verdict) => NotTaken::Refused(Box::new(failure.into_refusal(verdict))),
            None => NotTaken::Broken(Broken(failure.reason)),
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
    /// Why, with the way out if there was an error before that has one.
    fn gave_up(&self, reason: &str) -> String {
        match self.log.obstacle() {
            Some(obstacle) if obstacle.certain => obstacle.text,
            _ => format!("the Kafka producer gave up: {}", self.log.scrub(reason)),
        }
    }

    fn tell(&self, ticket: Option<Ticket>, failure: Option<Box<Failure>>) {
        // Never full: there is room for everything in flight and for errors besides, and the first
        // error ends the session. Closed: the session is over and nobody wants to know.
        let _ = self.deliveries.try_send(Delivery { lane: self.kind, ticket, failure });
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        let ticket = Some(Ticket::from_number(ticket as u64));
        match result {
            Ok(_) => self.tell(ticket, None),
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                let id = message
                    .headers()
                    .and_then(|headers| headers.iter().find(|header| header.key == ID_HEADER))
                    .and_then(|header| header.value)
                    .map(|id| String::from_utf8_lossy(id).into_owned());
                let failure = Failure {
                    meaning: meaning(code),
                    topic: message.topic().to_owned(),
                    id,
                    reason: error.to_string(),
                };
                self.tell(ticket, Some(Box::new(failure)));
            }
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() != Some(Code::Fatal) {
            self.log.trouble(&error, reason);
            return;
        }
        let failure = Failure {
            meaning: Meaning::Broken,
            topic: String::new(),
            id: None,
            reason: self.gave_up(reason),
        };
        self.tell(None, Some(Box::new(failure)));
    }
}
