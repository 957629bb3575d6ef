//! Readers that others have written, in other languages: what they read is what our users will read.
//!
//! Each runs as a program of its own that reads the first records of a topic, all partitions from
//! the beginning. If it can't decode one of them, or does not find them all in time, the test fails
//! with what it has written to its standard error.

mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use openssl::base64::decode_block;
use serde_json::Value;

use self::tools::{JAVA_READER, PYTHON_READER, java_readers, python};
use crate::broker::Broker;
use crate::guardian::{Ending, GuardedProcess};
use crate::registry::{Kind, Registry};

/// For the records, counted by the program.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// For the program, which also has to start.
const END_WITHIN: Duration = Duration::from_secs(120);

/// An event as an SDK of the CloudEvents project understands it.
///
/// Times are in UTC and have six digits after the second. The SDK for Python makes a record's key
/// the extension `partitionkey`.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudEvent {
    pub partition: u64,
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    /// `binary`, `structured`, or `none` if there is no event for the program: Kafka's consumer for
    /// Java has none for a record without a value, whatever its headers are.
    pub mode: String,
    /// Those that the specification defines, `specversion` included.
    pub attributes: BTreeMap<String, String>,
    pub extensions: BTreeMap<String, Value>,
    /// The SDK for Python parses JSON; these bytes are made of what it has parsed.
    pub data: Option<Vec<u8>>,
}

impl CloudEvent {
    #[track_caller]
    pub fn json(&self) -> Value {
        let data = self.data.as_deref().expect("an event without data");
        serde_json::from_slice(data).expect("the event's data is not JSON")
    }
}

/// A record's value as a deserializer of Confluent's client for Python understands it.
#[derive(Clone, Debug, PartialEq)]
pub struct FramedValue {
    pub partition: u64,
    pub offset: u64,
    pub key: Option<Vec<u8>>,
    /// As JSON: bytes in base64, times as in [`CloudEvent`]. Null if the record has no value.
    pub value: Value,
    /// The id before the value.
    pub id: Option<u64>,
    /// The GUID in the header.
    pub guid: Option<String>,
    /// The path to the message in its file, for protobuf.
    pub message_indexes: Option<Vec<u64>>,
    /// The full name of the message that the path leads to, for protobuf.
    pub message: Option<String>,
}

/// Reads events with the SDK for Python.
#[track_caller]
pub fn python_cloudevents(broker: &Broker, topic: &str, count: usize) -> Vec<CloudEvent> {
    let mut command = python();
    command.args([PYTHON_READER, "cloudevents"]);
    run(command, broker, topic, count, None).iter().map(cloud_event).collect()
}

/// Reads events with the SDK for Java and Kafka's own consumer.
#[track_caller]
pub fn java_cloudevents(broker: &Broker, topic: &str, count: usize) -> Vec<CloudEvent> {
    let mut command = java_readers();
    command.arg(JAVA_READER);
    run(command, broker, topic, count, None).iter().map(cloud_event).collect()
}

/// Reads values with Confluent's client, which asks the registry for the schemas. Protobuf needs
/// a registry that has serialized schemas, as [`crate::registry::mock`] does.
#[track_caller]
pub fn confluent_values(
    broker: &Broker,
    topic: &str,
    count: usize,
    registry: &Registry,
    kind: Kind,
) -> Vec<FramedValue> {
    let mut command = python();
    command.args([PYTHON_READER, &kind.to_string().to_lowercase()]);
    run(command, broker, topic, count, Some(registry)).iter().map(framed_value).collect()
}

/// Runs a reader with the arguments that all of them have, and returns its lines in the order of
/// the topic: by partition and offset.
#[track_caller]
fn run(
    mut command: Command,
    broker: &Broker,
    topic: &str,
    count: usize,
    registry: Option<&Registry>,
) -> Vec<Value> {
    let mut process = GuardedProcess::new("reader", Ending::Kill);
    let lines = process.folder().join("lines");
    command.args([broker.brokers(), topic, &count.to_string()]);
    command.arg(READ_WITHIN.as_secs().to_string()).arg(&lines);
    command.args(registry.map(Registry::url_with_login));
    process.run_to_end(command, END_WITHIN);
    let mut lines = parse(&lines);
    lines.sort_by_key(|line| (line["partition"].as_u64(), line["offset"].as_u64()));
    assert_eq!(lines.len(), count, "the reader has not written what it has read: {lines:?}");
    lines
}

fn parse(lines: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(lines).expect("the reader has written nothing");
    lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn cloud_event(line: &Value) -> CloudEvent {
    let entries = |name: &str| line[name].as_object().expect("no such part").clone();
    CloudEvent {
        partition: line["partition"].as_u64().unwrap(),
        offset: line["offset"].as_u64().unwrap(),
        key: bytes(&line["key"]),
        mode: text(&line["mode"]).unwrap(),
        attributes: entries("attributes")
            .into_iter()
            .map(|(name, value)| (name, text(&value).expect("an attribute that is not text")))
            .collect(),
        extensions: entries("extensions").into_iter().collect(),
        data: bytes(&line["data"]),
    }
}

fn framed_value(line: &Value) -> FramedValue {
    let indexes = line["message_indexes"].as_array();
    FramedValue {
        partition: line["partition"].as_u64().unwrap(),
        offset: line["offset"].as_u64().unwrap(),
        key: bytes(&line["key"]),
        value: line["value"].clone(),
        id: line["id"].as_u64(),
        guid: text(&line["guid"]),
        message_indexes: indexes.map(|indexes| indexes.iter().filter_map(Value::as_u64).collect()),
        message: text(&line["message"]),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Bytes that the reader has written in base64.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| decode_block(text).expect("not base64"))
}
