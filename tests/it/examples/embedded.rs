//! Several relays in one program: examples/embedded.rs, run as it is.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::examples;
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::guardian::{Ending, GuardedProcess};
use testkit::http;
use testkit::port::free_port;
use testkit::relay::postrider;
use testkit::wait::{poll_for, wait_for};

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A database with an outbox, and a topic for it.
struct Outbox {
    fixture: Fixture,
    topic: String,
    consumer: Consumer,
}

impl Outbox {
    #[track_caller]
    fn new(name: &str) -> Outbox {
        let mut fixture = Fixture::new(BINARY, name);
        let topic = fixture.create_topic("events", 1, &[]);
        Outbox { topic, consumer: fixture.consumer(), fixture }
    }

    fn toml(&self) -> String {
        let url = self.fixture.postgres().url(self.fixture.database());
        let (slot, brokers) = (self.fixture.slot(), self.fixture.broker().brokers());
        format!("[postgres]\nurl = '{url}'\nslot = '{slot}'\n[kafka]\nbrokers = '{brokers}'\n")
    }

    #[track_caller]
    fn write(&self, events: usize) {
        let mut client = self.fixture.client();
        let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '{}')";
        for _ in 0..events {
            client.execute(sql, &[&self.topic]).unwrap();
        }
    }

    /// Writes events, and waits until they are published.
    #[track_caller]
    fn publish(&self, events: usize) {
        self.write(events);
        self.consumer.read_n(events, SOON);
    }
}

/// The example with an outbox for each of its relays.
struct Embedded {
    process: GuardedProcess,
    address: SocketAddr,
    orders: Outbox,
    invoices: Outbox,
}

impl Embedded {
    #[track_caller]
    fn start() -> Embedded {
        let (orders, invoices) = (Outbox::new("embed_orders"), Outbox::new("embed_invoices"));
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut process = GuardedProcess::new("embedded", Ending::Kill);
        let file = |name: &str, outbox: &Outbox| {
            let path = process.folder().join(name);
            std::fs::write(&path, outbox.toml()).unwrap();
            path
        };
        let files = [file("orders.toml", &orders), file("invoices.toml", &invoices)];
        // A variable would apply to both relays, so none may be set.
        let env = [("POSTRIDER_SLOT".to_owned(), "another".to_owned())];
        let mut command = postrider(&examples::build("embedded"), &env);
        command.arg(address.to_string()).args(files);
        process.start(command);
        let mut embedded = Embedded { process, address, orders, invoices };
        embedded.wait_ready();
        embedded
    }

    #[track_caller]
    fn wait_ready(&mut self) {
        let mut last = String::from("no answer");
        let ready = poll_for(SOON, || {
            assert!(self.process.is_running(), "the process ended:\n{}", self.process.log());
            let (status, body) = http::get(self.address, "/readyz").ok()?;
            last = format!("{status} {body}");
            (status == 200 && body == "ready\n").then_some(())
        });
        assert!(ready.is_some(), "not ready: {last}\n{}", self.process.log_tail(20));
    }

    #[track_caller]
    fn get(&self, path: &str) -> String {
        let (status, body) = http::get(self.address, path).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    #[track_caller]
    fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status")).unwrap()
    }

    /// The metrics once all these series are in them.
    #[track_caller]
    fn metrics_with(&self, series: &[String]) -> String {
        let mut last = String::new();
        let found = poll_for(SOON, || {
            last = self.get("/metrics");
            series.iter().all(|series| last.lines().any(|line| line == series)).then_some(())
        });
        assert!(found.is_some(), "{series:?} are not all in\n{last}");
        last
    }

    /// Sends the signal, waits for the end, and returns the exit code and all that was logged.
    #[track_caller]
    fn stop(&mut self, signal: Signal) -> (Option<i32>, String) {
        self.process.signal(signal);
        let status = self.process.wait(SOON);
        let log = self.process.log();
        (status.unwrap_or_else(|| panic!("the process did not end:\n{log}")).code(), log)
    }
}

/// The series that counts the published events of an outbox.
fn published(relay: &str, outbox: &Outbox, events: usize) -> String {
    let topic = &outbox.topic;
    format!(
        "outbox_published_total{{relay=\"{relay}\",table=\"public.outbox\",topic=\"{topic}\"}} {events}"
    )
}

/// OpenMetrics requires one TYPE per family, followed by its samples.
#[track_caller]
fn assert_grouped(metrics: &str) {
    assert!(metrics.ends_with("# EOF\n"), "cut short:\n{metrics}");
    let mut families = BTreeSet::new();
    let mut family = "";
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap();
            assert!(families.insert(family), "{family} has two blocks:\n{metrics}");
        }
        assert!(line.starts_with('#') || line.starts_with(family), "{line} is among {family}");
    }
    assert!(families.len() > 15, "this would not test much:\n{metrics}");
}

/// Each series names its relay, except those of the process, which appear once.
#[track_caller]
fn assert_labelled(metrics: &str) {
    let samples = || metrics.lines().filter(|line| !line.starts_with('#'));
    for line in samples().filter(|line| !line.contains("relay=\"")) {
        let of_process = line.starts_with("process_") || line.starts_with("postrider_build_info{");
        assert!(of_process, "{line} does not name its relay");
    }
    for name in ["process_threads ", "postrider_build_info{"] {
        assert_eq!(samples().filter(|line| line.starts_with(name)).count(), 1, "{metrics}");
    }
}

/// Each line names its relay, except those about the whole program.
#[track_caller]
fn assert_attributed(log: &str) {
    let of_relays =
        |line: &&str| line.contains(" postrider::") && !line.contains(" postrider::shutdown: ");
    for line in log.lines().filter(of_relays) {
        assert!(line.contains(" relay{relay="), "{line:?} does not name its relay");
    }
    for relay in ["orders", "invoices"] {
        assert!(log.contains(&format!(" relay{{relay={relay}}}: ")), "no {relay} in\n{log}");
    }
}

#[test]
fn two_relays_share_a_process_and_its_endpoint() {
    let mut embedded = Embedded::start();
    embedded.orders.publish(3);
    embedded.invoices.publish(2);
    let metrics = embedded.metrics_with(&[
        published("orders", &embedded.orders, 3),
        published("invoices", &embedded.invoices, 2),
        "postrider_active{relay=\"orders\"} 1".to_owned(),
        "postrider_active{relay=\"invoices\"} 1".to_owned(),
    ]);
    assert_grouped(&metrics);
    assert_labelled(&metrics);
    let status = embedded.status();
    let page = embedded.get("/");
    for (name, outbox) in [("orders", &embedded.orders), ("invoices", &embedded.invoices)] {
        let relay = &status["relays"][name];
        assert_eq!(relay["state"], "streaming", "{status}");
        assert_eq!(relay["slot"], outbox.fixture.slot(), "{status}");
        for part in [&format!("<h2>{name}</h2>"), outbox.fixture.slot()] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
    }
    assert_eq!(embedded.get("/livez"), "alive\n");
    let (code, log) = embedded.stop(Signal::INT);
    assert_eq!(code, Some(0), "{log}");
    assert_attributed(&log);
}

#[test]
fn a_relay_that_fails_is_named_and_the_other_one_continues() {
    let mut embedded = Embedded::start();
    embedded.orders.publish(1);
    let topic = &embedded.orders.topic;
    let sql = format!(
        "ALTER TABLE outbox RENAME COLUMN topic TO subject;
         INSERT INTO outbox (subject, payload) VALUES ('{topic}', '{{}}')"
    );
    embedded.orders.fixture.client().batch_execute(&sql).unwrap();
    let body = wait_for("the relay to fail", SOON, || {
        let (status, body) = http::get(embedded.address, "/readyz").ok()?;
        (status == 503 && body.starts_with("orders: failed: ")).then_some(body)
    });
    assert_eq!(body.lines().count(), 1, "the other relay is ready: {body}");
    assert!(body.contains("\"topic\"") && body.contains("; fix: "), "{body}");
    embedded.invoices.publish(5);
    let metrics = embedded.metrics_with(&[
        published("invoices", &embedded.invoices, 5),
        published("orders", &embedded.orders, 1),
        "postrider_active{relay=\"orders\"} 0".to_owned(),
        "postrider_active{relay=\"invoices\"} 1".to_owned(),
    ]);
    assert_grouped(&metrics);
    let status = embedded.status();
    let failed = &status["relays"]["orders"];
    assert_eq!(failed["state"], "failed", "{status}");
    assert!(failed["reason"].as_str().unwrap().contains("\"topic\""), "{status}");
    assert!(failed["fix"].is_string(), "{status}");
    assert_eq!(status["relays"]["invoices"]["state"], "streaming", "{status}");

    let (code, log) = embedded.stop(Signal::TERM);
    assert_eq!(code, Some(3), "{log}");
    assert_attributed(&log);
    let is_error = |line: &&str| line.contains("ERROR relay{relay=orders}: ");
    assert_eq!(log.lines().filter(is_error).count(), 1, "{log}");
    assert!(log.lines().any(|line| line.starts_with("embedded: ")), "{log}");
    assert!(log.lines().any(|line| line.starts_with("fix: ")), "{log}");
}

#[test]
fn wrong_configurations_are_all_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut command = postrider(&examples::build("embedded"), &[]);
    command.arg("127.0.0.1:0");
    command.args([file("a.toml", "[postgres]\nslott = 'a'"), file("b.toml", "slots = 'b'")]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    for part in ["a.toml:2: unknown key postgres.slott", "b.toml:1: unknown key slots"] {
        assert!(errors.contains(part), "{part} is not in\n{errors}");
    }
    assert_eq!(errors.matches("kafka.brokers: not set").count(), 2, "{errors}");
}
