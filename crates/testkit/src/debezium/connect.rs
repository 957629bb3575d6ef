//! A worker of Kafka Connect in standalone mode: one JVM for as many connectors as there are cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::jars;
use crate::guardian::{Ending, GuardedProcess};
use crate::http::{self, Request};
use crate::port::free_port;
use crate::wait::{poll_for, wait_until};

const START_WITHIN: Duration = Duration::from_secs(120);
const STOP_WITHIN: Duration = Duration::from_secs(60);

const SETTINGS: &[(&str, &str)] = &[
    // Each connector has its own.
    ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("plugin.discovery", "service_load"),
    // Only how soon a connector confirms what it has read.
    ("offset.flush.interval.ms", "500"),
];

const JVM_FLAGS: &[&str] = &["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"];

// OpenTelemetry, which sends its spans nowhere.
const TRACING_FLAGS: &[&str] = &[
    "-Dotel.java.global-autoconfigure.enabled=true",
    "-Dotel.traces.exporter=none",
    "-Dotel.metrics.exporter=none",
    "-Dotel.logs.exporter=none",
];

pub struct ConnectWorker {
    process: GuardedProcess,
    address: SocketAddr,
}

/// What a connector does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Starting,
    Running,
    /// With the class of the exception at the root.
    Failed(String),
}

impl ConnectWorker {
    /// Returns when it answers.
    #[track_caller]
    pub fn start(brokers: &str) -> ConnectWorker {
        ConnectWorker::start_with(brokers, &[])
    }

    /// The same where OpenTelemetry is configured.
    #[track_caller]
    pub fn start_tracing(brokers: &str) -> ConnectWorker {
        ConnectWorker::start_with(brokers, TRACING_FLAGS)
    }

    #[track_caller]
    fn start_with(brokers: &str, flags: &[&str]) -> ConnectWorker {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut process = GuardedProcess::new("connect", Ending::Kill);
        let file = process.folder().join("worker.properties");
        let mut lines = String::new();
        for (name, value) in SETTINGS {
            writeln!(lines, "{name}={value}").unwrap();
        }
        let offsets = process.folder().join("offsets");
        writeln!(lines, "bootstrap.servers={brokers}").unwrap();
        writeln!(lines, "listeners=http://{address}").unwrap();
        writeln!(lines, "plugin.path={}", jars::plugins().display()).unwrap();
        writeln!(lines, "offset.storage.file.filename={}", offsets.display()).unwrap();
        std::fs::write(&file, lines).expect("cannot write worker.properties");
        let mut command = jars::java();
        command
            .args(jars::JVM_OPTIONS)
            .args(JVM_FLAGS)
            .args(flags)
            .arg("-cp")
            .arg(jars::connect().join("*"));
        command.arg("org.apache.kafka.connect.cli.ConnectStandalone").arg(file);
        process.start(command);
        let mut worker = ConnectWorker { process, address };
        worker.wait_ready();
        worker
    }

    #[track_caller]
    fn wait_ready(&mut self) {
        let ready = poll_for(START_WITHIN, || {
            if let Some(status) = self.process.try_exit() {
                panic!("Connect ended while starting ({status}):\n{}", self.process.log_tail(20));
            }
            let (status, _) = http::get(self.address, "/connectors").ok()?;
            (status == 200).then_some(())
        });
        assert!(ready.is_some(), "Connect does not answer:\n{}", self.process.log_tail(20));
    }

    /// Creates a connector; its task then starts.
    #[track_caller]
    pub fn create(&self, name: &str, properties: &BTreeMap<String, String>) {
        let body = serde_json::to_string(properties).unwrap();
        let (status, answer) = self.send("PUT", &format!("/connectors/{name}/config"), &body);
        assert_eq!(status, 201, "Connect does not take connector {name}: {answer}");
    }

    #[track_caller]
    pub fn state(&self, name: &str) -> State {
        let (_, answer) = self.send("GET", &format!("/connectors/{name}/status"), "");
        let states = [&answer["connector"], &answer["tasks"][0]];
        let is = |state: &str| states.iter().any(|it| it["state"] == state);
        if is("FAILED") {
            let traces = states.iter().filter_map(|it| it["trace"].as_str());
            State::Failed(root_cause(&traces.collect::<String>()))
        } else if states[1]["state"] == "RUNNING" {
            State::Running
        } else {
            State::Starting
        }
    }

    /// Ends a connector. Its producer has then sent what it had.
    #[track_caller]
    pub fn delete(&self, name: &str) {
        let (status, answer) = self.send("DELETE", &format!("/connectors/{name}"), "");
        assert_eq!(status, 204, "Connect does not delete connector {name}: {answer}");
        wait_until(&format!("the end of connector {name}"), STOP_WITHIN, || {
            self.send("GET", &format!("/connectors/{name}/status"), "").0 == 404
        });
    }

    #[track_caller]
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request { method, path, body, ..Request::default() };
        let (status, body) = http::send(self.address, request).unwrap_or_else(|error| {
            panic!("{method} {path}: {error}\n{}", self.process.log_tail(20));
        });
        (status, serde_json::from_str(&body).unwrap_or_default())
    }
}

/// The class after the last `Caused by:` of a Java stack trace, else the one that it begins with.
pub(super) fn root_cause(trace: &str) -> String {
    let mut causes = trace.lines().filter_map(|line| line.trim_start().strip_prefix("Caused by: "));
    let line = causes.next_back().or(trace.lines().next()).unwrap_or_default();
    line.split(':').next().unwrap_or_default().trim().to_owned()
}
