//! librdkafka's properties: all of them, except those that could break the promise.

mod security;

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

use super::keys::KAFKA_PROPERTIES;
use super::problem::Problem;
use super::raw::Typed;
use super::secrets::looks_secret;
pub(super) use security::{cautions, check_files};

/// Why this property can't be set; `None` if it can.
fn refusal(name: &str) -> Option<&'static str> {
    let reason = match name {
        "bootstrap.servers" | "metadata.broker.list" => "the brokers are set in kafka.brokers",
        "acks" | "request.required.acks" => {
            "an event counts as published only once all in-sync replicas have it (acks=all)"
        }
        "enable.idempotence" => "without idempotence a retry can repeat and reorder events",
        "enable.gapless.guarantee" => {
            "without it events after a rejected batch would be written before it"
        }
        "max.in.flight" | "max.in.flight.requests.per.connection" => {
            "postrider limits requests in flight to keep the order"
        }
        "message.timeout.ms" | "delivery.timeout.ms" => {
            "an event must wait while its broker is unreachable, however long that takes"
        }
        "retries" | "message.send.max.retries" => {
            "an event must be tried until the broker acknowledges or rejects it"
        }
        "batch.size" => {
            "postrider sets the batch size; topics that accept less use the careful lane"
        }
        "topic.metadata.propagation.max.ms" => "postrider needs it to recognize a missing topic",
        "queuing.strategy" => "lifo would reorder events",
        "partitioner" => {
            "a key must get the same partition as from Java producers (murmur2_random)"
        }
        "transactional.id" | "transaction.timeout.ms" => {
            "postrider does not publish in Kafka transactions"
        }
        "delivery.report.only.error" => "postrider needs reports of success to confirm positions",
        "queue.buffering.max.ms" => "it is another name for linger.ms; set that",
        "queue.buffering.max.messages" | "queue.buffering.max.kbytes" => {
            "limits.in_flight_events and limits.in_flight_bytes limit what waits for the broker"
        }
        "topic.blacklist" => "events of a topic that is hidden could never be published",
        "api.version.request" | "api.version.fallback.ms" | "broker.version.fallback" => {
            "idempotence requires that librdkafka queries the brokers' features"
        }
        "statistics.interval.ms" => "nobody reads librdkafka's statistics; see /metrics",
        "log_level" | "log.level" | "log.queue" => {
            "the level of librdkafka's lines is set with the log: POSTRIDER_LOG=info,librdkafka=debug"
        }
        "internal.termination.signal" => "postrider itself handles the signals that stop it",
        "plugin.library.paths" => "third-party code could change or lose published events",
        "test.mock.num.brokers" | "test.mock.broker.rtt" | "ut_handle_ProduceResponse" => {
            "events would go to a simulated broker in memory and be lost with it"
        }
        "enabled_events"
        | "opaque"
        | "default_topic_conf"
        | "msg_order_cmp"
        | "interceptors"
        | "enable_sasl_queue"
        | "ssl_key"
        | "ssl_certificate"
        | "ssl_ca"
        | "ssl_engine_callback_data" => "it can only be set by a program",
        _ if name.ends_with("_cb") => "callbacks can only be set by a program",
        _ => return None,
    };
    Some(reason)
}

/// What becomes of a property that another client had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can be set.
    Accepted,
    /// It would break the promise, for this reason.
    Refused(&'static str),
    /// librdkafka does not have it, or not with this value.
    Unknown,
}

/// Whether a property can be set to this value.
pub(crate) fn verdict(name: &str, value: &str) -> Verdict {
    match refusal(name) {
        Some(reason) => Verdict::Refused(reason),
        None if librdkafka_error(name, value).is_some() => Verdict::Unknown,
        None => Verdict::Accepted,
    }
}

/// The properties for librdkafka. librdkafka itself rejects names that it does not know, properties
/// that this build does not have, and values that it does not accept.
pub(super) fn check(
    typed: &BTreeMap<String, Typed>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, String> {
    let path = KAFKA_PROPERTIES.path();
    for (name, Typed { text, origin }) in typed {
        let message = match refusal(name) {
            Some(reason) => format!("{path}.{name} can't be set: {reason}; remove it"),
            None => match librdkafka_error(name, text) {
                Some(error) => format!("{path}.{name}: {error}"),
                None => continue,
            },
        };
        problems.push(Problem::at(origin, message));
    }
    security::check(typed, problems);
    typed.iter().map(|(name, typed)| (name.clone(), typed.text.clone())).collect()
}

fn librdkafka_error(name: &str, value: &str) -> Option<String> {
    let error = ClientConfig::new().set(name, value).create_native_config().err()?;
    let description = match error {
        // The description may quote the value.
        _ if is_secret(name) || looks_secret(value) => {
            "it does not accept this property or its value".to_owned()
        }
        KafkaError::ClientConfig(_, description, ..) => description,
        other => other.to_string(),
    };
    Some(format!("librdkafka reports: {description}; its CONFIGURATION.md lists names and values"))
}

/// Whether the value may be a secret. If in doubt, it is treated as one.
fn is_secret(name: &str) -> bool {
    let marks = ["key", "pem", "oauthbearer"];
    holds_secret(name) || marks.iter().any(|mark| name.contains(mark))
}

/// Whether the property's value is a secret itself, and not the name of one.
pub(crate) fn holds_secret(name: &str) -> bool {
    let marks = ["password", "passphrase", "secret", "key.pem", "oauthbearer.config"];
    marks.iter().any(|mark| name.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Origin;

    #[track_caller]
    fn check(name: &str, value: &str, expect: Option<&str>) {
        let typed = Typed { text: value.to_owned(), origin: Origin::Default };
        let mut problems = Vec::new();
        super::check(&BTreeMap::from([(name.to_owned(), typed)]), &mut problems);
        let message = problems.first().map(|problem| problem.message.as_str());
        match (message, expect) {
            (Some(message), Some(part)) => assert!(message.contains(part), "{message}"),
            (message, expect) => assert_eq!(message, expect, "{name}"),
        }
    }

    #[test]
    fn what_would_break_the_promise_is_refused_with_the_reason() {
        check("acks", "all", Some("all in-sync replicas"));
        check("request.required.acks", "1", Some("all in-sync replicas"));
        check("enable.idempotence", "false", Some("reorder"));
        check("enable.gapless.guarantee", "false", Some("rejected batch"));
        check("max.in.flight", "1", Some("order"));
        check("message.timeout.ms", "1000", Some("unreachable"));
        check("delivery.timeout.ms", "1000", Some("unreachable"));
        check("retries", "1", Some("tried until"));
        check("bootstrap.servers", "a:1", Some("kafka.brokers"));
        check("partitioner", "random", Some("murmur2_random"));
        check("transactional.id", "x", Some("transactions"));
        check("queue.buffering.max.ms", "1", Some("linger.ms"));
        check("queue.buffering.max.messages", "1", Some("limits.in_flight_events"));
        check("delivery.report.only.error", "true", Some("success"));
        check("queuing.strategy", "lifo", Some("reorder"));
        check("dr_msg_cb", "x", Some("callbacks"));
        check("topic.blacklist", "^a", Some("hidden"));
        check("api.version.request", "false", Some("idempotence"));
        check("broker.version.fallback", "0.9.0", Some("idempotence"));
        check("transaction.timeout.ms", "1000", Some("transactions"));
        check("statistics.interval.ms", "1000", Some("/metrics"));
        check("log_level", "7", Some("librdkafka=debug"));
        check("log.level", "7", Some("librdkafka=debug"));
        check("internal.termination.signal", "15", Some("signals"));
        check("plugin.library.paths", "/x.so", Some("third-party code"));
        check("test.mock.num.brokers", "1", Some("simulated"));
        check("ssl_key", "x", Some("program"));
        check("ssl.certificate.verify_cb", "x", Some("callbacks"));
    }

    #[test]
    fn what_users_may_need_is_theirs() {
        for (name, value) in [
            ("allow.auto.create.topics", "false"),
            ("client.id", "shop"),
            ("connections.max.idle.ms", "60000"),
            ("debug", "security,broker"),
            ("enable.metrics.push", "false"),
            ("message.copy.max.bytes", "0"),
            ("message.max.bytes", "67108864"),
            ("request.timeout.ms", "8000"),
            ("socket.timeout.ms", "10000"),
            ("sticky.partitioning.linger.ms", "0"),
            ("topic.metadata.refresh.interval.ms", "60000"),
        ] {
            check(name, value, None);
        }
    }

    #[test]
    fn librdkafka_judges_the_rest() {
        check("linger.ms", "5", None);
        check("compression.type", "zstd", None);
        check("linger.ms", "soon", Some("linger.ms"));
        check("lingr.ms", "5", Some("lingr.ms"));
        check("compression.type", "rar", Some("rar"));
    }
}
