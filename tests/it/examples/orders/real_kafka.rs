//! From an order over HTTP to its shipment, also with repeated records.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use std::io::{Read as _, Write as _};

use crate::enqueue::number;
use crate::examples;
use testkit::fixture::Fixture;
use testkit::guardian::{Ending, GuardedProcess};
use testkit::port::free_port;
use testkit::wait::{poll_for, wait_for, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

struct Orders {
    process: GuardedProcess,
    port: u16,
}

impl Orders {
    #[track_caller]
    fn start(fixture: &Fixture, topic: &str, group: &str) -> Orders {
        let port = free_port();
        let mut command = Command::new(examples::build("orders"));
        command.envs(fixture.env().iter().map(|(name, value)| (name, value)));
        command.env("ORDERS_TOPIC", topic).env("ORDERS_GROUP", group);
        command.env("ORDERS_LISTEN", format!("127.0.0.1:{port}"));
        let mut process = GuardedProcess::new("orders", Ending::Kill);
        process.start(command);
        let mut orders = Orders { process, port };
        wait_until("the example to listen", SOON, || {
            assert!(orders.process.is_running(), "{}", orders.process.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        orders
    }

    #[track_caller]
    fn request(&self, head: &str, body: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    fn logged(&self, what: &str) -> usize {
        self.process.log().lines().filter(|line| line.contains(what)).count()
    }
}

#[test]
fn every_order_is_shipped_once_however_often_its_record_is_delivered() {
    let mut fixture = Fixture::new(BINARY, "orders");
    let topic = fixture.create_topic("orders", 3, &[]);
    fixture.start_relay().wait_ready(SOON);
    let mut orders = Orders::start(&fixture, &topic, fixture.database());
    for number in 1..=20 {
        let body = format!("{{\"customer\": \"ann-{}\", \"item\": \"book\"}}", number % 3);
        let answer = orders.request("POST /orders", &body);
        assert!(answer.starts_with("HTTP/1.0 201"), "{answer}");
    }
    // A bad request writes nothing.
    let answer = orders.request("POST /orders", "{\"customer\": \"ann\"}");
    assert!(answer.starts_with("HTTP/1.0 422"), "{answer}");
    let mut client = fixture.client();
    let shipments = "SELECT count(*) FROM shipments";
    let all = poll_for(SOON, || (number(&mut client, shipments) == 20).then_some(()));
    assert!(all.is_some(), "{}", orders.process.log());
    let answer = orders.request("GET /orders/1", "");
    assert!(answer.ends_with("{\"item\":\"book\",\"shipped\":true}"), "{answer}");
    assert_eq!(orders.logged("shipped order"), 20);

    // The group's offsets are lost with the group: every record is delivered again.
    orders.process.kill9();
    let orders = Orders::start(&fixture, &topic, &format!("{}-again", fixture.database()));
    wait_for("all records to be delivered again", SOON, || {
        (orders.logged("was shipped already") == 20).then_some(())
    });
    assert_eq!(orders.logged("shipped order"), 0);
    assert_eq!(number(&mut client, shipments), 20);
    assert_eq!(number(&mut client, "SELECT count(DISTINCT order_id) FROM shipments"), 20);
}
