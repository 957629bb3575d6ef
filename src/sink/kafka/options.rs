//! What a sink is made from, and librdkafka's settings that follow from it. Where the promise
//! depends on a setting, it is set here and can't be changed.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::lane::LaneKind;
use crate::config;
use crate::sink::SinkOptions;

/// Batches of the fast lane are never larger, so topics that accept less need the careful lane (ADR
/// 0005).
pub(super) const BATCH_BYTES: usize = 256 * 1024;

/// How long a topic may be unknown to the brokers before its records fail. Brokers that just
/// started don't know all topics at once.
const TOPIC_UNKNOWN_MS: &str = "4000";

/// The largest record, unless the user configures another limit: twice the largest payload of the
/// outbox table.
const MESSAGE_BYTES_MAX: &str = "33554432";

#[derive(Debug, Clone)]
pub(super) struct KafkaOptions {
    /// `host:port`, comma separated.
    pub(super) brokers: String,
    /// The user's librdkafka properties, checked.
    pub(super) properties: BTreeMap<String, String>,
    pub(super) sink: SinkOptions,
}

impl KafkaOptions {
    /// Settings common to every client.
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Some reasons for a closed connection are only in lines of this level.
        config.set_log_level(if tracing::enabled!(target: "librdkafka", tracing::Level::DEBUG) {
            RDKafkaLogLevel::Debug
        } else {
            RDKafkaLogLevel::Info
        });
        config.set("client.id", "postrider");
        config.set("socket.keepalive.enable", "true");
        config.set("reconnect.backoff.max.ms", "1000");
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    /// Settings of the client that asks about topics. Nobody reads log lines from its queue, so it
    /// must not write any.
    pub(super) fn admin(&self) -> ClientConfig {
        let mut config = self.client();
        config.remove("debug");
        config.set_log_level(RDKafkaLogLevel::Emerg);
        config
    }

    /// Values that must not appear in any log line, if they are long enough to be distinguished
    /// from other text.
    pub(super) fn secrets(&self) -> Vec<String> {
        const LENGTH_MIN: usize = 4;
        let secret = |(name, value): &(&String, &String)| {
            config::holds_secret(name) && value.len() >= LENGTH_MIN
        };
        self.properties.iter().filter(secret).map(|(_, value)| value.clone()).collect()
    }

    /// Settings of a producer: defaults first, then the user's, then what the promise needs.
    pub(super) fn producer(&self, kind: LaneKind) -> ClientConfig {
        let mut config = self.client();
        // Batches form anyway while requests are in flight; waiting only adds latency.
        if config.get("linger.ms").is_none() {
            config.set("linger.ms", "0");
        }
        if config.get("message.max.bytes").is_none() {
            config.set("message.max.bytes", MESSAGE_BYTES_MAX);
        }
        config.set("batch.size", BATCH_BYTES.to_string());
        config.set("acks", "all");
        config.set("enable.idempotence", "true");
        config.set("max.in.flight.requests.per.connection", "5");
        config.set("enable.gapless.guarantee", matches!(kind, LaneKind::Fast).to_string());
        // The relay never gives up while the broker is unreachable: the position is held instead.
        let timeout_ms = self.sink.give_up_after.map_or(0, |timeout| timeout.as_millis().max(1));
        config.set("message.timeout.ms", timeout_ms.to_string());
        config.set("message.send.max.retries", i32::MAX.to_string());
        config.set("topic.metadata.propagation.max.ms", TOPIC_UNKNOWN_MS);
        // The same key must land on the same partition as the users' Java producers.
        config.set("partitioner", "murmur2_random");
        // The relay limits what is in flight; these only have to be larger.
        config
            .set("queue.buffering.max.messages", (self.sink.in_flight_events_max + 1).to_string());
        config.set("queue.buffering.max.kbytes", self.queue_kbytes().to_string());
        config
    }

    /// Twice the limit, and space for one event beyond it, within what librdkafka accepts.
    fn queue_kbytes(&self) -> usize {
        (self.sink.in_flight_bytes_max / 512 + 2 * 1024 * 1024).min(i32::MAX as usize)
    }

    /// Whether a record's size on the wire can be known before it is sent.
    pub(super) fn compresses(&self) -> bool {
        ["compression.codec", "compression.type"]
            .iter()
            .any(|name| self.properties.get(*name).is_some_and(|codec| codec != "none"))
    }
}
