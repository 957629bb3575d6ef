//! Permissions on topics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::broker::Broker;
use crate::wait::wait_until;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Numbers of the protocol.
#[derive(Clone, Copy)]
pub enum Operation {
    All = 2,
    Write = 4,
    Describe = 8,
    DescribeConfigs = 10,
}

#[derive(Clone, Copy)]
pub struct Acl<'a> {
    pub topic: &'a str,
    /// `User:name`
    pub principal: &'a str,
    pub operation: Operation,
    pub allow: bool,
}

const CREATE_ACLS: i16 = 30;
const DESCRIBE_ACLS: i16 = 29;

/// Creates the rule, and waits until the broker applies it: it gets rules from the controller.
#[track_caller]
pub fn create_acl(broker: &Broker, acl: Acl<'_>) {
    // One creation.
    let mut body = vec![2];
    body.extend(described(acl));
    body.push(0);
    let answer = ask(broker, CREATE_ACLS, &body);
    // One result: its error code.
    assert_eq!(answer[..3], [2, 0, 0], "not created: {answer:?}");
    wait_until("the broker to know its rules", ANSWER_WITHIN, || {
        let answer = ask(broker, DESCRIBE_ACLS, &described(acl));
        // Error code, a message that is null or empty, and how many topics have rules like this;
        // lengths are counted from 1.
        answer[..2] == [0, 0] && answer[2] <= 1 && answer[3] > 1
    });
}

/// The rule, in the form that both requests use.
fn described(acl: Acl<'_>) -> Vec<u8> {
    const TOPIC: u8 = 2;
    const LITERAL: u8 = 3;
    const DENY: u8 = 2;
    const ALLOW: u8 = 3;
    let mut bytes = vec![TOPIC];
    compact(acl.topic, &mut bytes);
    bytes.push(LITERAL);
    compact(acl.principal, &mut bytes);
    compact("*", &mut bytes);
    bytes.extend([acl.operation as u8, if acl.allow { ALLOW } else { DENY }, 0]);
    bytes
}

/// Version 2 of a request about rules (<https://kafka.apache.org/protocol>), built by hand: the
/// client library can't send it, and the command-line tool is not among the server's jars. The
/// answer begins after the throttle time.
#[track_caller]
fn ask(broker: &Broker, api: i16, body: &[u8]) -> Vec<u8> {
    const VERSION: i16 = 2;
    const CORRELATION: i32 = 1;
    const NO_CLIENT_ID: i16 = -1;
    const NO_TAGS: u8 = 0;
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(VERSION.to_be_bytes());
    request.extend(CORRELATION.to_be_bytes());
    request.extend(NO_CLIENT_ID.to_be_bytes());
    request.push(NO_TAGS);
    request.extend(body);
    let mut socket = TcpStream::connect(broker.brokers()).unwrap();
    socket.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
    let length = i32::try_from(request.len()).unwrap();
    socket.write_all(&length.to_be_bytes()).unwrap();
    socket.write_all(&request).unwrap();
    let mut head = [0; 4];
    socket.read_exact(&mut head).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(head)).unwrap()];
    socket.read_exact(&mut answer).unwrap();
    // correlation id, tags, throttle time
    answer.split_off(9)
}

/// A compact string.
fn compact(text: &str, request: &mut Vec<u8>) {
    let length = u8::try_from(text.len() + 1).unwrap();
    assert!(length < 128, "a longer varint is needed for {text}");
    request.push(length);
    request.extend(text.as_bytes());
}
