//! Kafka, by librdkafka.
//!
//! Two lanes keep the order of a key when the broker refuses a record (ADR 0005). The fast lane
//! batches and pipelines; librdkafka's gapless mode turns a refusal there into a fatal error that
//! purges everything after it, so nothing is written past the refused batch. A refused batch says
//! nothing about its single records, so the stream restarts with that topic in the careful lane: a
//! second producer, where a refusal is about one record.
//!
//! Files that a sink of any kind has, by role:
//!
//! - `mod`: what sinks are made of; makes them
//! - `options`: what was configured, and the client's settings that follow from it
//! - `sink`: the sink, and what the client's reports mean for the relay
//! - `delivery`: what became of a record, as the client's thread reports it
//! - `classify`: what an error means for an event, and so who has to act
//! - `obstacle`: what keeps records from the destination, and what to do about it
//! - `approval`: no record is sent before the destination is known and approved
//! - `reachability`: whether the destination can be reached, also while nothing is published
//! - `log`: the client's log lines and errors, at a bearable volume
//!
//! Files that only Kafka needs:
//!
//! - `lanes`: the producers of one session; `lane`: one producer
//! - `careful/`: the careful lane's queues
//! - `refusals`: what refused records have shown about topics, and so which lane they use
//! - `topics/`: what is known of topics, how the brokers are asked, how old a timestamp may be
//! - `murmur2`: the partition that a Java producer would choose

mod approval;
mod careful;
mod classify;
mod delivery;
mod lane;
mod lanes;
mod log;
pub(crate) mod murmur2;
mod obstacle;
mod options;
mod reachability;
mod refusals;
mod sink;
mod topics;

use std::collections::BTreeMap;

use super::{SinkFactory, SinkOptions};
use crate::config::KafkaConfig;
use postrider_core::delivery::Broken;

use self::options::KafkaOptions;
pub use self::sink::KafkaSink;

/// What to do about properties that librdkafka does not accept.
const PROPERTIES_FIX: &str = "correct kafka.properties: the files that it names must exist, be \
    readable and be in PEM format, and the password of an encrypted key must be in \
    ssl.key.password";

/// The brokers, and the properties to reach them with: what Kafka sinks are made of.
#[derive(Clone)]
pub struct Kafka {
    brokers: String,
    properties: BTreeMap<String, String>,
}

impl Kafka {
    /// As they are configured.
    pub fn new(config: &KafkaConfig) -> Self {
        Kafka { brokers: config.brokers.clone(), properties: config.properties.clone() }
    }
}

impl SinkFactory for Kafka {
    type Sink = KafkaSink;

    /// Fails if librdkafka rejects the properties together, for example an unreadable file.
    fn make(&self, options: SinkOptions) -> Result<KafkaSink, Broken> {
        let Kafka { brokers, properties } = self.clone();
        KafkaSink::open(KafkaOptions { brokers, properties, sink: options })
            .map_err(|broken| Broken { fix: Some(PROPERTIES_FIX.to_owned()), ..broken })
    }
}
