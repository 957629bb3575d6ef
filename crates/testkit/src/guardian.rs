//! A child process that, together with its folder, never outlives the tests.
//!
//! Rust runs no destructors for statics nor after SIGKILL, so neither can be trusted to stop a
//! server. Each process therefore has a guardian: a small shell that reads a pipe whose other end
//! only this process holds. However it ends, the kernel closes the pipe, and the guardian ends the
//! child and removes the folder. `Drop` does it in the same way.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::wait::poll_for;

// Each line is the pid to watch from now on; an empty line means no process. `/proc/PID/stat`
// instead of `kill -0`: where nobody reaps orphans (a container without init), dead processes stay
// as zombies.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
running() { case "$(cat "/proc/$1/stat" 2>/dev/null)" in ''|*') Z '*) return 1 ;; esac; }
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
  kill -s "$1" "$pid" 2>/dev/null
  kill -s CONT "$pid" 2>/dev/null
  tries=0
  while running "$pid" && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
  kill -s KILL "$pid" 2>/dev/null
fi
rm -rf "$2"
"#;

/// How a process is ended when it is not needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At once, for processes without children.
    Kill,
    /// SIGQUIT first, which makes a Postgres server end its backends.
    Quit,
}

pub struct GuardedProcess {
    what: String,
    ending: Ending,
    folder: PathBuf,
    guardian: Child,
    pipe: Option<ChildStdin>,
    child: Option<Child>,
    last_exit: Option<ExitStatus>,
}

impl GuardedProcess {
    /// Creates the folder and its guardian; `what` names both in messages.
    pub fn new(what: &str, ending: Ending) -> GuardedProcess {
        let folder = tempfile::Builder::new()
            .prefix(&format!("postrider-{what}-"))
            .tempdir_in(short_temp_dir())
            .expect("cannot create a temporary folder")
            .keep();
        let mut guardian = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guardian"])
            .arg(if ending == Ending::Quit { "QUIT" } else { "KILL" })
            .arg(&folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            // If inherited, they would keep a pipe such as `cargo test | tee` open.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own group: Ctrl-C must end the tests, not the processes that clean up after them.
            .process_group(0)
            .spawn()
            .expect("cannot start /bin/sh as a guardian");
        let pipe = guardian.stdin.take();
        GuardedProcess {
            what: what.to_owned(),
            ending,
            folder,
            guardian,
            pipe,
            child: None,
            last_exit: None,
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Everything the process wrote to its standard output and error, over all its starts.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn log_file(&self) -> File {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        options.open(self.log_path()).expect("cannot open the log file of a child process")
    }

    /// Starts the command as the one process of this guardian.
    pub fn start(&mut self, mut command: Command) {
        assert!(!self.is_running(), "{} is already running", self.what);
        let log = self.log_file();
        let errors = log.try_clone().expect("cannot share the log file");
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {command:?}: {error}", self.what));
        let pid = child.id().to_string();
        self.child = Some(child);
        self.tell_guardian(&pid).expect("the guardian has ended: something has killed it");
        self.last_exit = None;
    }

    /// Runs a preparing command (`initdb`, formatting) to its end; it must succeed.
    pub fn run_to_end(&mut self, command: Command, within: Duration) {
        let program = command.get_program().to_string_lossy().into_owned();
        self.start(command);
        match self.wait(within) {
            Some(status) if status.success() => {}
            Some(status) => panic!("{program} failed ({status}):\n{}", self.log_tail(20)),
            None => panic!("{program} did not end within {within:?}:\n{}", self.log_tail(20)),
        }
    }

    fn tell_guardian(&mut self, line: &str) -> std::io::Result<()> {
        let pipe = self.pipe.as_mut().expect("the guardian's pipe is open until drop");
        writeln!(pipe, "{line}")
    }

    /// The running process; `None` if it was never started or has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// How the process ended, if it has.
    pub fn try_exit(&mut self) -> Option<ExitStatus> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait().expect("cannot wait for a child process")
        {
            self.child = None;
            self.last_exit = Some(status);
            // Another process may get the pid from now on. A guardian that is gone needs no
            // notice.
            let _ = self.tell_guardian("");
        }
        self.last_exit
    }

    pub fn is_running(&mut self) -> bool {
        self.try_exit();
        self.child.is_some()
    }

    /// The exit status, or `None` if the process still runs after `within`.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        poll_for(within, || self.try_exit())
    }

    /// Sends a signal; nothing happens if the process has ended.
    pub fn signal(&self, signal: Signal) {
        // Safe against reuse of the pid: it is ours until we have waited for it.
        if let Some(pid) = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGKILL, and waits for the end.
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
        if self.child.is_some() && self.wait(Duration::from_secs(30)).is_none() {
            panic!("{} has survived SIGKILL", self.what);
        }
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        if std::thread::panicking() && self.log_path().exists() {
            eprintln!("--- last lines of {}:\n{}\n---", self.what, self.log_tail(40));
        }
        if self.child.is_some() {
            if self.ending == Ending::Quit {
                self.signal(Signal::QUIT);
                self.signal(Signal::CONT);
                self.wait(Duration::from_secs(10));
            }
            // Not kill9(): it panics, and a second panic while unwinding aborts all tests.
            self.signal(Signal::KILL);
            self.wait(Duration::from_secs(10));
        }
        drop(self.pipe.take());
        let _ = self.guardian.wait();
    }
}

// Unix socket paths end at 107 bytes, and a server puts its socket into its folder.
fn short_temp_dir() -> PathBuf {
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() <= 50 { usual } else { PathBuf::from("/tmp") }
}
