//! The Kafka client: the brokers, and the Java producer's properties by librdkafka's names.

use super::{login, stores};
use crate::config::keys::KAFKA_PROPERTIES;
use crate::config::{Verdict, holds_secret, verdict};
use crate::import::connector::{Connector, Runtime, Settings, take_below};
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, Value, list};

const BROKERS: &str = "bootstrap.servers";
pub(super) const PROTOCOL: &str = "security.protocol";

/// Properties with another name in librdkafka.
const RENAMED: [(&str, &str); 6] = [
    ("max.request.size", "message.max.bytes"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("compression.gzip.level", "compression.level"),
    ("compression.lz4.level", "compression.level"),
    ("compression.zstd.level", "compression.level"),
];

/// Properties that postrider has in another form, or not at all.
const DIFFERENT: [(&str, Kind, &str); 8] = [
    ("buffer.memory", Kind::Operators, "limits.in_flight_bytes limits the memory here"),
    (
        "max.block.ms",
        Kind::Operators,
        "an event waits for as long as its broker or its topic is not there",
    ),
    (
        "interceptor.classes",
        Kind::Consumers,
        "interceptors are not run: what they change in records is not changed",
    ),
    (
        "partitioner.ignore.keys",
        Kind::Consumers,
        "the key decides the partition here, as by default",
    ),
    ("partitioner.adaptive.partitioning.enable", Kind::Operators, KEYLESS),
    ("partitioner.availability.timeout.ms", Kind::Operators, KEYLESS),
    ("client.rack", Kind::Operators, KEYLESS),
    (
        "sasl.login.callback.handler.class",
        Kind::FillIn,
        "librdkafka has no login classes; it fetches tokens with sasl.oauthbearer.method = oidc",
    ),
];
const KEYLESS: &str = "it concerns records without a key, whose partition is any";

/// Classes that leave records as they are.
const USUAL_CLASSES: [&str; 4] = [
    "",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
    "org.apache.kafka.common.serialization.StringSerializer",
    "org.apache.kafka.common.serialization.ByteArraySerializer",
];

/// Writes `[kafka]` and `[kafka.properties]`.
pub(super) fn write(connector: &mut Connector, draft: &mut Draft) {
    let mut properties = match connector.runtime {
        Runtime::Connect => connector.take_below("producer.override."),
        Runtime::Server => std::mem::take(&mut connector.producer),
    };
    brokers(&mut properties, connector, draft);
    draft.section("kafka.properties");
    unused(&mut properties, draft);
    login::write(&mut properties, draft);
    stores::write(&mut properties, draft);
    for (name, setting) in properties {
        property(&name, &setting, draft);
    }
}

fn brokers(properties: &mut Settings, connector: &mut Connector, draft: &mut Draft) {
    let worker = connector.worker.as_mut();
    let of_worker = worker.and_then(|worker| worker.remove(BROKERS));
    let setting = properties.remove(BROKERS).or(of_worker);
    match setting.as_ref().map(|setting| (setting, setting.text())) {
        Some((setting, Some(text))) => {
            // Java's client takes the protocol of a listener before the host.
            let host = |broker: &str| match broker.split_once("://") {
                Some((_, host)) => host.to_owned(),
                None => broker.to_owned(),
            };
            let brokers: Vec<String> = list(text).map(host).collect();
            draft.copy("brokers", brokers.join(","), setting);
        }
        Some((setting, None)) => super::router::copy_text("brokers", setting, draft),
        None => {
            let of = match connector.runtime {
                Runtime::Connect => "the worker's bootstrap.servers",
                Runtime::Server => "debezium.sink.kafka.producer.bootstrap.servers",
            };
            draft.fill_in("brokers", of);
            let meaning = format!(
                "{of} is not in the file; what the worker or the producer has for TLS and SASL \
                 (security.protocol, sasl.…, ssl.…) goes into [kafka.properties]"
            );
            draft.find(Kind::FillIn, "kafka.brokers", &meaning);
        }
    }
    let worker = connector.worker.as_mut();
    for member in ["tls", "sasl"] {
        if let Some(setting) = worker.as_ref().and_then(|worker| worker.get(member)) {
            let meaning = "write what it means into [kafka.properties]: security.protocol, \
                           ssl.ca.location, sasl.mechanism, sasl.username";
            draft.find(Kind::FillIn, &setting.place(), meaning);
        }
    }
}

/// Properties that have no effect with the protocol. postrider would refuse them.
fn unused(properties: &mut Settings, draft: &mut Draft) {
    let Some(protocol) = protocol(properties) else { return };
    for (prefix, needed) in [("ssl.", "SSL"), ("sasl.", "SASL")] {
        if protocol.contains(needed) && (needed == "SASL" || protocol.ends_with(needed)) {
            continue;
        }
        for setting in take_below(properties, prefix).values() {
            let meaning =
                format!("it has no effect with {PROTOCOL} = {protocol}, so it is left out");
            draft.find(Kind::Operators, &setting.place(), &meaning);
        }
    }
}

/// In upper case; none if it is not in the file.
fn protocol(properties: &Settings) -> Option<String> {
    match properties.get(PROTOCOL).map(|setting| &setting.value) {
        None => Some("PLAINTEXT".to_owned()),
        Some(Value::Text(text)) => Some(text.trim().to_uppercase()),
        Some(Value::Elsewhere(_)) => None,
    }
}

/// A property without a rule of its own.
fn property(name: &str, setting: &Setting, draft: &mut Draft) {
    let place = setting.place();
    if let Some((_, kind, meaning)) = DIFFERENT.iter().find(|(known, ..)| *known == name) {
        let is_off = name == "partitioner.ignore.keys" && setting.is("false");
        if !is_off {
            draft.find(*kind, &place, meaning);
        }
        return;
    }
    if ["key.serializer", "value.serializer", "partitioner.class"].contains(&name) {
        if !setting.text().is_some_and(|text| USUAL_CLASSES.contains(&text.trim())) {
            let meaning = match name {
                "partitioner.class" => "keys get other partitions here: murmur2, as by default",
                _ => "postrider does not run it: records have the bytes of the converter",
            };
            draft.find(Kind::Consumers, &place, meaning);
        }
        return;
    }
    let name = RENAMED.iter().find(|(java, _)| *java == name).map_or(name, |(_, ours)| ours);
    if (holds_secret(name) && verdict(name, "any") != Verdict::Unknown) || setting.has_credentials()
    {
        return secret(name, setting, draft);
    }
    let Some(text) = setting.text() else {
        return super::router::copy_text(name, setting, draft);
    };
    match verdict(name, text) {
        Verdict::Accepted => draft.copy(name, text, setting),
        Verdict::Refused(reason) => {
            draft.find(Kind::Operators, &place, &format!("postrider does not take it: {reason}"));
        }
        Verdict::Unknown => draft.find(
            Kind::Operators,
            &place,
            "librdkafka, postrider's client, does not have this property or this value, so it is \
             left out",
        ),
    }
}

/// A property that is not copied: which variable sets it.
pub(super) fn secret(name: &str, from: &Setting, draft: &mut Draft) {
    let section = KAFKA_PROPERTIES.variables().into_iter().next().unwrap_or_default();
    let variable = format!("{section}_{}", name.to_uppercase().replace('.', "_"));
    let place = from.place();
    draft.comment(&format!("{name} ({place}) is not copied: set {variable} or {variable}_FILE."));
    let meaning = format!("passwords are not copied: set {variable} or {variable}_FILE");
    draft.find(Kind::FillIn, &place, &meaning);
}
