//! What an operator does to topics, besides creating them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use crate::support::broker::Broker;
use crate::support::wait::wait_until;

const SOON: Duration = Duration::from_secs(30);

fn client(broker: &Broker) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.brokers());
    config.create().unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Gives a topic more partitions, and waits for their leaders.
#[track_caller]
pub(super) fn add_partitions(broker: &Broker, topic: &str, partitions: i32) {
    let count = usize::try_from(partitions).unwrap();
    let wanted = [&NewPartitions::new(topic, count)];
    let done = block_on(client(broker).create_partitions(wanted, &AdminOptions::new()));
    done.unwrap().pop().unwrap().unwrap();
    wait_until("the new partitions", SOON, || broker.partition_count(topic) == Some(partitions));
}

/// Changes a topic's setting; those not named fall back to their defaults.
#[track_caller]
pub(super) fn alter_topic(broker: &Broker, topic: &str, name: &str, value: &str) {
    let wanted = [&AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value)];
    let done = block_on(client(broker).alter_configs(wanted, &AdminOptions::new()));
    done.unwrap().pop().unwrap().unwrap();
    wait_until("the new setting", SOON, || {
        let asked = [&ResourceSpecifier::Topic(topic)];
        let answer = block_on(client(broker).describe_configs(asked, &AdminOptions::new()));
        let resource = answer.unwrap().pop().unwrap().unwrap();
        resource.get(name).and_then(|entry| entry.value.as_deref()) == Some(value)
    });
}

const ALLOW: u8 = 3;
const DENY: u8 = 2;
const ALL: u8 = 2;
const DESCRIBE_CONFIGS: u8 = 10;

/// Allows everybody everything on a topic but to ask for its settings.
#[track_caller]
pub(super) fn deny_describe_configs(broker: &Broker, topic: &str) {
    create_acl(broker, topic, ALL, ALLOW);
    create_acl(broker, topic, DESCRIBE_CONFIGS, DENY);
}

/// CreateAcls, version 2 (<https://kafka.apache.org/protocol#The_Messages_CreateAcls>), by hand:
/// the client library can't, and the command-line tool is not among the server's jars.
#[track_caller]
fn create_acl(broker: &Broker, topic: &str, operation: u8, permission: u8) {
    const TOPIC: u8 = 2;
    const LITERAL: u8 = 3;
    let mut request = Vec::new();
    request.extend(30_i16.to_be_bytes());
    request.extend(2_i16.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    compact(None, &mut request);
    request.push(0);
    request.push(2);
    request.push(TOPIC);
    compact(Some(topic), &mut request);
    request.push(LITERAL);
    compact(Some("User:*"), &mut request);
    compact(Some("*"), &mut request);
    request.extend([operation, permission, 0, 0]);
    let mut socket = TcpStream::connect(broker.brokers()).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let length = i32::try_from(request.len()).unwrap();
    socket.write_all(&length.to_be_bytes()).unwrap();
    socket.write_all(&request).unwrap();
    let mut head = [0; 4];
    socket.read_exact(&mut head).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(head)).unwrap()];
    socket.read_exact(&mut answer).unwrap();
    // correlation id, tags, throttle time, one result: its error code
    assert_eq!(answer[9..12], [2, 0, 0], "not created: {answer:?}");
}

fn compact(text: Option<&str>, request: &mut Vec<u8>) {
    match text {
        // Only the header's client id, which is not a compact string even there.
        None => request.extend((-1_i16).to_be_bytes()),
        Some(text) => {
            let length = u8::try_from(text.len() + 1).unwrap();
            assert!(length < 128, "a longer varint is needed for {text}");
            request.push(length);
            request.extend(text.as_bytes());
        }
    }
}
