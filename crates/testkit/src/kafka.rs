//! A real Apache Kafka: one KRaft node on free ports, in a temporary folder.

pub mod acl;
mod jars;
pub mod secured;
mod storage;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use self::jars::Release;
use self::storage::Kind;
use super::broker::Broker;
use super::guardian::{Ending, GuardedProcess};
use super::port::free_port;
use super::proxy::Proxy;
use super::wait::poll_for;

#[derive(Clone, Debug, Default)]
pub struct KafkaOptions {
    pub release: Release,
    /// Lines of server.properties that override the harness's own.
    pub settings: Vec<(String, String)>,
    pub auto_create_topics: bool,
    /// Adds a listener that advertises this port, a proxy's, to clients.
    pub advertised_port: Option<u16>,
    /// The controller's port of a running server: this one joins it, as broker 2.
    pub joins: Option<u16>,
    /// Flags of the JVM that override the harness's own.
    pub jvm_flags: Vec<String>,
    /// Listeners in addition to the plain one, known to clients as `localhost`.
    pub listeners: Vec<Listener>,
    /// Files for the server's folder, which settings and flags call `{folder}`.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// Arguments for formatting the storage.
    pub format_arguments: Vec<String>,
    /// The id of the cluster, if it must differ from that of all others.
    pub cluster_id: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub struct Listener {
    pub name: &'static str,
    /// `SSL`, `SASL_SSL`, …
    pub protocol: &'static str,
    pub port: u16,
}

impl KafkaOptions {
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Compiles all code well, for servers that run long and have to be fast.
pub const COMPILE_WELL: &str = "-XX:TieredStopAtLevel=4";

// The serial collector starts fastest on two cores, and leaves the second one to what is tested.
// Most servers run for seconds: compiling their code well would cost more than it saves.
const JVM_FLAGS: &[&str] =
    &["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN"];

/// Any base64 UUID will do: the cluster has one node and is never restored.
pub const CLUSTER_ID: &str = "cG9zdHJpZGVyLWtyYWZ0LQ";

const PROTOCOLS: &str = "DIRECT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT";

const SETTINGS: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "DIRECT"),
    ("default.replication.factor", "1"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    // A killed broker can register again only once its old session has ended: 9 s by default.
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
];

const START_WITHIN: Duration = Duration::from_secs(90);

pub struct KafkaServer {
    process: GuardedProcess,
    release: Release,
    jvm_flags: Vec<String>,
    port: u16,
    port_behind_proxy: u16,
    advertised_port: Option<u16>,
    controller_port: u16,
}

impl KafkaServer {
    pub fn start(options: KafkaOptions) -> KafkaServer {
        let server = KafkaServer::new(free_port(), &options);
        let properties = server.properties(&options);
        server.begin(&options, &properties)
    }

    /// A server with these lines of server.properties and none of the harness's own except the
    /// folder of its data. `port` is the port of the listener that tests use.
    pub fn start_with_only(mut lines: BTreeMap<String, String>, port: u16) -> KafkaServer {
        let options = KafkaOptions::default();
        let server = KafkaServer::new(port, &options);
        lines.insert("log.dirs".to_owned(), server.data_dir());
        server.begin(&options, &lines)
    }

    fn new(port: u16, options: &KafkaOptions) -> KafkaServer {
        KafkaServer {
            process: GuardedProcess::new("kafka", Ending::Kill),
            release: options.release,
            jvm_flags: options.jvm_flags.clone(),
            port,
            port_behind_proxy: free_port(),
            advertised_port: options.advertised_port,
            controller_port: options.joins.unwrap_or_else(free_port),
        }
    }

    fn begin(
        mut self,
        options: &KafkaOptions,
        properties: &BTreeMap<String, String>,
    ) -> KafkaServer {
        for (name, content) in &options.files {
            std::fs::write(self.folder().join(name), content).expect("cannot write a file");
        }
        let lines: String = properties
            .iter()
            .map(|(name, value)| format!("{name}={}\n", self.in_folder(value)))
            .collect();
        std::fs::write(self.properties_path(), lines).expect("cannot write server.properties");
        self.format(options, properties);
        self.start_again();
        self
    }

    fn format(&mut self, options: &KafkaOptions, properties: &BTreeMap<String, String>) {
        let property = |name: &str| properties.get(name).cloned().unwrap_or_default();
        let kind = Kind {
            release: self.release,
            cluster_id: options.cluster_id.unwrap_or(CLUSTER_ID).to_owned(),
            node_id: property("node.id"),
            roles: property("process.roles"),
            arguments: options.format_arguments.clone(),
        };
        let folder = self.process.folder().join("data");
        storage::fill(&folder, kind.clone(), || {
            let mut format = self.java("kafka.tools.StorageTool");
            format.args(["format", "-t", &kind.cluster_id, "-c"]).arg(self.properties_path());
            format.args(&kind.arguments);
            self.process.run_to_end(format, START_WITHIN);
        });
    }

    /// A server whose clients can be cut off: give them [`Self::brokers_via_proxy`], and use
    /// [`Self::brokers`] only in the test itself.
    pub fn start_behind_proxy(mut options: KafkaOptions) -> (KafkaServer, Proxy) {
        let proxy = Proxy::start();
        options.advertised_port = Some(proxy.port());
        let server = KafkaServer::start(options);
        proxy.set_target(server.port_behind_proxy);
        (server, proxy)
    }

    fn properties(&self, options: &KafkaOptions) -> BTreeMap<String, String> {
        let controller = self.controller_port;
        let mut listeners = format!("DIRECT://127.0.0.1:{}", self.port);
        let mut advertised = listeners.clone();
        if let Some(port) = options.advertised_port {
            write!(listeners, ",PROXIED://127.0.0.1:{}", self.port_behind_proxy).unwrap();
            write!(advertised, ",PROXIED://127.0.0.1:{port}").unwrap();
        }
        let mut protocols = PROTOCOLS.to_owned();
        for Listener { name, protocol, port } in &options.listeners {
            write!(listeners, ",{name}://127.0.0.1:{port}").unwrap();
            write!(advertised, ",{name}://localhost:{port}").unwrap();
            write!(protocols, ",{name}:{protocol}").unwrap();
        }
        if options.joins.is_none() {
            write!(listeners, ",CONTROLLER://127.0.0.1:{controller}").unwrap();
        }

        let mut lines: BTreeMap<String, String> =
            SETTINGS.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        lines.extend([
            ("listener.security.protocol.map".to_owned(), protocols),
            ("listeners".to_owned(), listeners),
            ("advertised.listeners".to_owned(), advertised),
            ("controller.quorum.voters".to_owned(), format!("1@127.0.0.1:{controller}")),
            ("log.dirs".to_owned(), self.data_dir()),
            ("auto.create.topics.enable".to_owned(), options.auto_create_topics.to_string()),
        ]);
        if options.joins.is_some() {
            let joining = [("process.roles", "broker"), ("node.id", "2")];
            lines.extend(joining.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        lines.extend(options.settings.iter().cloned());
        lines
    }

    fn data_dir(&self) -> String {
        self.process.folder().join("data").display().to_string()
    }

    fn in_folder(&self, text: &str) -> String {
        text.replace("{folder}", &self.folder().display().to_string())
    }

    /// The folder of the server and its files.
    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    fn properties_path(&self) -> PathBuf {
        self.process.folder().join("server.properties")
    }

    fn java(&self, class: &str) -> Command {
        let mut command = self.release.java();
        let flags = self.jvm_flags.iter().map(|flag| self.in_folder(flag));
        command.args(JVM_FLAGS).args(flags).arg(class);
        command
    }

    /// Starts a stopped server: same data, same ports. Returns when it answers clients.
    pub fn start_again(&mut self) {
        self.begin_start();
        self.wait_ready();
    }

    /// Starts a stopped server without waiting for it.
    pub fn begin_start(&mut self) {
        let mut command = self.java("kafka.Kafka");
        command.arg(self.properties_path());
        self.process.start(command);
    }

    /// Ready means a metadata answer with a broker in it; an open port proves little.
    pub fn wait_ready(&mut self) {
        let broker = self.broker();
        let ready = poll_for(START_WITHIN, || {
            if let Some(status) = self.process.try_exit() {
                panic!("Kafka ended while starting ({status}):\n{}", self.log_tail(20));
            }
            broker.answers().then_some(())
        });
        assert!(ready.is_some(), "Kafka does not answer:\n{}", self.log_tail(20));
    }

    /// Sends SIGTERM and waits for the end: the clean stop that writes everything out.
    #[track_caller]
    pub fn stop(&mut self) -> Duration {
        let begun = Instant::now();
        self.process.signal(Signal::TERM);
        let within = Duration::from_secs(60);
        assert!(self.process.wait(within).is_some(), "Kafka did not stop within {within:?}");
        begun.elapsed()
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Freezes the server: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    #[track_caller]
    pub fn brokers_via_proxy(&self) -> String {
        let port = self.advertised_port.expect("this Kafka was started without advertised_port");
        format!("127.0.0.1:{port}")
    }

    /// The port by which another server joins this one.
    pub fn controller_port(&self) -> u16 {
        self.controller_port
    }

    /// The port a proxy must forward to.
    pub fn port_behind_proxy(&self) -> u16 {
        self.port_behind_proxy
    }

    /// How to reach the server, as a copy.
    pub fn broker(&self) -> Broker {
        Broker::at(&self.brokers())
    }

    #[track_caller]
    pub fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        self.broker().create_topic(name, partitions, settings);
    }

    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }
}
