//! Who may do what with a topic.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::broker::Broker;

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

/// CreateAcls, version 2 (<https://kafka.apache.org/protocol#The_Messages_CreateAcls>), by hand:
/// the client library can't, and the command-line tool is not among the server's jars.
#[track_caller]
pub fn create_acl(broker: &Broker, acl: Acl<'_>) {
    const TOPIC: u8 = 2;
    const LITERAL: u8 = 3;
    const DENY: u8 = 2;
    const ALLOW: u8 = 3;
    let mut request = Vec::new();
    request.extend(30_i16.to_be_bytes());
    request.extend(2_i16.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    compact(None, &mut request);
    request.push(0);
    request.push(2);
    request.push(TOPIC);
    compact(Some(acl.topic), &mut request);
    request.push(LITERAL);
    compact(Some(acl.principal), &mut request);
    compact(Some("*"), &mut request);
    request.extend([acl.operation as u8, if acl.allow { ALLOW } else { DENY }, 0, 0]);
    let mut socket = TcpStream::connect(broker.brokers()).unwrap();
    socket.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
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
