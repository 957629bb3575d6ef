//! The relay as a child process that can be killed, frozen and inspected.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use procfs::process::Process;
use rustix::process::Signal;

use super::guardian::{Ending, GuardedProcess};
use super::http;
use super::wait::poll_for;

/// The home of the user nobody on Debian, which does not exist.
pub const NO_HOME: &str = "/nonexistent";

pub struct Relay {
    process: GuardedProcess,
    http: Option<SocketAddr>,
}

impl Relay {
    /// Starts `postrider run` with exactly this configuration.
    pub fn start(binary: &Path, env: &[(String, String)]) -> Relay {
        Relay::start_with(binary, env, &[])
    }

    /// The same with flags.
    pub fn start_with(binary: &Path, env: &[(String, String)], flags: &[&str]) -> Relay {
        let mut command = postrider(binary, env);
        command.arg("run").args(flags);
        let listen = env.iter().rev().find(|(name, _)| name == "POSTRIDER_HTTP_LISTEN");
        let mut process = GuardedProcess::new("relay", Ending::Kill);
        process.start(command);
        Relay { process, http: listen.and_then(|(_, value)| value.parse().ok()) }
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Sends SIGTERM; does not wait.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Sends SIGINT; does not wait.
    pub fn interrupt(&self) {
        self.process.signal(Signal::INT);
    }

    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Waits for the process to end; fails the test with its log if it does not.
    #[track_caller]
    pub fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        let status = self.process.wait(within);
        let log = self.process.log_tail(20);
        status.unwrap_or_else(|| panic!("the relay did not end within {within:?}:\n{log}"))
    }

    /// Everything it has written to standard output and error.
    pub fn log(&self) -> String {
        self.process.log()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    /// Waits until `/readyz` answers 200, and not because it is a healthy standby; fails the test
    /// with the relay's log if it does not.
    #[track_caller]
    pub fn wait_ready(&mut self, within: Duration) {
        let mut last = String::from("no answer");
        let ready = poll_for(within, || {
            if let Some(status) = self.process.try_exit() {
                panic!("the relay ended ({status}) instead of getting ready:\n{}", self.log());
            }
            let (status, body) = self.http_get("/readyz").ok()?;
            last = format!("{status} {body}");
            (status == 200 && body == "ready\n").then_some(())
        });
        let log = self.process.log_tail(20);
        assert!(ready.is_some(), "the relay is not ready after {within:?}: {last}\n{log}");
    }

    /// Status and body of a GET.
    pub fn http_get(&self, path: &str) -> std::io::Result<(u16, String)> {
        let address = self.http.expect("the relay was started without POSTRIDER_HTTP_LISTEN");
        http::get(address, path)
    }

    #[track_caller]
    fn proc(&self) -> Process {
        let pid = self.process.pid().expect("the relay is not running");
        Process::new(pid.cast_signed()).expect("the relay has no /proc entry")
    }

    /// Its peak memory. Must be called before it ends.
    #[track_caller]
    pub fn peak_rss_bytes(&self) -> u64 {
        self.proc().status().ok().and_then(|it| it.vmhwm).expect("no VmHWM") * 1024
    }

    #[track_caller]
    pub fn rss_bytes(&self) -> u64 {
        self.proc().status().ok().and_then(|it| it.vmrss).expect("no VmRSS") * 1024
    }

    /// User and system time of all its threads.
    #[track_caller]
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc().stat().expect("the relay has no /proc entry");
        let ticks = stat.utime + stat.stime;
        Duration::from_millis(ticks * 1_000 / procfs::ticks_per_second())
    }
}

/// The relay's binary with this configuration, and without the developer's environment.
pub fn postrider(binary: &Path, env: &[(String, String)]) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["POSTRIDER_", "PG", "SSL_CERT_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    // Otherwise the developer's password file or certificates would be used.
    command.env("HOME", NO_HOME);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    // Otherwise a postrider.toml of the current folder would be read.
    command.current_dir("/");
    command
}
