//! Debezium Server: a JVM for each configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use procfs::process::Process;
use rustix::process::Signal;

use super::connect::root_cause;
use super::jars;
use crate::guardian::{Ending, GuardedProcess};
use crate::port::free_port;

const OFFSETS_FILE: &str = "debezium.source.offset.storage.file.filename";

/// One that can be stopped and started again: its offsets stay.
pub struct DebeziumServer {
    process: GuardedProcess,
    /// How long the log was at the last start.
    log_begin: usize,
}

impl DebeziumServer {
    /// Writes the configuration; nothing is started yet.
    #[track_caller]
    pub fn new(properties: &BTreeMap<String, String>) -> DebeziumServer {
        let process = GuardedProcess::new("debezium", Ending::Kill);
        std::fs::create_dir(process.folder().join("config")).expect("cannot create a folder");
        let server = DebeziumServer { process, log_begin: 0 };
        server.configure(properties);
        server
    }

    /// Writes another configuration, for the next start.
    #[track_caller]
    pub fn configure(&self, properties: &BTreeMap<String, String>) {
        let own = [
            ("quarkus.http.port", free_port().to_string()),
            ("quarkus.http.host", "127.0.0.1".to_owned()),
            ("quarkus.log.console.json.enabled", "false".to_owned()),
            ("quarkus.log.console.color", "false".to_owned()),
            (OFFSETS_FILE, self.offsets().display().to_string()),
            ("debezium.source.offset.flush.interval.ms", "0".to_owned()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut all: BTreeMap<String, String> = own.collect();
        all.extend(properties.clone());
        let mut lines = String::new();
        for (name, value) in all {
            writeln!(lines, "{name}={}", escaped(&value)).unwrap();
        }
        let file = self.process.folder().join("config/application.properties");
        std::fs::write(file, lines).expect("cannot write application.properties");
    }

    fn offsets(&self) -> PathBuf {
        self.process.folder().join("offsets.dat")
    }

    /// Removes what it has stored about its position.
    #[track_caller]
    pub fn remove_offsets(&self) {
        std::fs::remove_file(self.offsets()).expect("there are no offsets");
    }

    /// Starts it, also again after its end.
    #[track_caller]
    pub fn start(&mut self) {
        self.start_with(jars::JVM_OPTIONS);
    }

    /// The same with other options of the JVM.
    #[track_caller]
    pub fn start_with(&mut self, options: &[&str]) {
        let mut java = jars::java();
        java.args(options);
        let jars = jars::server().join("lib/*");
        // Its threads want that from Java 24 on.
        java.args(["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp"]);
        java.arg(format!("{}:{}", jars::server_runner().display(), jars.display()));
        // It reads config/application.properties in its folder.
        java.arg("io.debezium.server.Main").current_dir(self.process.folder());
        self.log_begin = self.log().len();
        self.process.start(java);
    }

    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// The clean stop that writes its offsets.
    #[track_caller]
    pub fn stop(&mut self, within: Duration) -> ExitStatus {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(within);
        status.unwrap_or_else(|| panic!("Debezium Server did not stop:\n{}", self.log_tail(20)))
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// How it ended, if it has: the class of the exception at the root of the first error it logged.
    pub fn failure(&mut self) -> Option<String> {
        self.process.try_exit()?;
        Some(root_cause(&self.errors()))
    }

    /// What it has logged since its start, from its first error on.
    pub fn errors(&self) -> String {
        let log = &self.log()[self.log_begin..];
        let error = log.find(" ERROR ").map(|at| log[at..].lines().take(40).collect::<Vec<_>>());
        error.unwrap_or_default().join("\n")
    }

    pub fn log(&self) -> String {
        self.process.log()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    #[track_caller]
    fn proc(&self) -> Process {
        let pid = self.process.pid().expect("Debezium Server is not running");
        Process::new(pid.cast_signed()).expect("Debezium Server has no /proc entry")
    }

    /// Its peak memory. Must be called before it ends.
    #[track_caller]
    pub fn peak_rss_bytes(&self) -> u64 {
        self.proc().status().ok().and_then(|it| it.vmhwm).expect("no VmHWM") * 1024
    }

    /// User and system time of all its threads.
    #[track_caller]
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc().stat().expect("Debezium Server has no /proc entry");
        let ticks = stat.utime + stat.stime;
        Duration::from_millis(ticks * 1_000 / procfs::ticks_per_second())
    }
}

/// A value in a file of properties. `${…}` would be an expression.
fn escaped(value: &str) -> String {
    let value = value.replace("${", "\\${").replace('\\', "\\\\");
    value.replace('\n', "\\n").replace('\r', "\\r")
}
