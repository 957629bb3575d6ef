//! Debezium Server: a JVM for each configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use procfs::process::Process;
use rustix::process::Signal;

use super::connect::root_cause;
use super::jars;
use crate::guardian::{Ending, GuardedProcess};
use crate::port::free_port;

/// One that can be stopped and started again: its offsets stay.
pub struct DebeziumServer {
    process: GuardedProcess,
}

impl DebeziumServer {
    /// Writes the configuration; nothing is started yet.
    #[track_caller]
    pub fn new(properties: &BTreeMap<String, String>) -> DebeziumServer {
        let process = GuardedProcess::new("debezium", Ending::Kill);
        let mut own = BTreeMap::from([
            ("quarkus.http.port".to_owned(), free_port().to_string()),
            ("quarkus.http.host".to_owned(), "127.0.0.1".to_owned()),
            ("quarkus.log.console.json.enabled".to_owned(), "false".to_owned()),
            ("quarkus.log.console.color".to_owned(), "false".to_owned()),
            (
                "debezium.source.offset.storage.file.filename".to_owned(),
                process.folder().join("offsets.dat").display().to_string(),
            ),
            ("debezium.source.offset.flush.interval.ms".to_owned(), "0".to_owned()),
        ]);
        own.extend(properties.clone());
        let mut lines = String::new();
        for (name, value) in own {
            writeln!(lines, "{name}={}", escaped(&value)).unwrap();
        }
        let folder = process.folder().join("config");
        std::fs::create_dir(&folder).expect("cannot create the folder config");
        std::fs::write(folder.join("application.properties"), lines)
            .expect("cannot write application.properties");
        DebeziumServer { process }
    }

    /// Starts it, also again after its end.
    #[track_caller]
    pub fn start(&mut self) {
        let mut command = jars::java();
        let jars = jars::server().join("lib/*");
        command.arg("-cp");
        command.arg(format!("{}:{}", jars::server_runner().display(), jars.display()));
        // It reads config/application.properties in its folder.
        command.arg("io.debezium.server.Main").current_dir(self.process.folder());
        self.process.start(command);
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

    /// How it ended, if it has: the class of the exception at the root of the last error it logged.
    pub fn failure(&mut self) -> Option<String> {
        self.process.try_exit()?;
        let log = self.process.log();
        let from = log.rfind(" ERROR ").unwrap_or(0);
        Some(root_cause(&log[from..]))
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
