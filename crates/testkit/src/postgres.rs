//! A real Postgres server on a free port, in a temporary folder.

mod address;
mod binaries;
mod copy;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};

pub use self::address::PostgresAddress;
use self::address::{PASSWORD, USER};
use self::binaries::{ServerUser, bin_dir, bin_dir_of};
use super::guardian::{Ending, GuardedProcess};
use super::port::free_port;
use super::wait::{poll_for, wait_until};

/// How TCP connections authenticate; the Unix socket trusts everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpAuth {
    #[default]
    Trust,
    Md5,
    ScramSha256,
}

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Instead of the version that all tests use. It may have only the server's programs.
    pub major_version: Option<u32>,
    pub auth: TcpAuth,
    /// On as in production: a server that answers sooner than a real one hides races.
    pub fsync: bool,
    /// Lines of postgresql.conf that override the harness's own.
    pub extra_settings: Vec<(String, String)>,
    /// Files for the data folder, which only the server's user can read.
    pub files: Vec<(String, Vec<u8>)>,
    /// Lines of pg_hba.conf that come before the harness's own.
    pub hba: Vec<String>,
    /// Arguments of the server, which override its file.
    pub arguments: Vec<String>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions {
            major_version: None,
            auth: TcpAuth::Trust,
            fsync: true,
            extra_settings: Vec::new(),
            files: Vec::new(),
            hba: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

impl PostgresOptions {
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.extra_settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Archives the log, for restores: see [`PostgresServer::archive`].
    #[must_use]
    pub fn archiving(self) -> Self {
        let command = "mkdir -p ../archive && cp %p ../archive/%f";
        self.setting("archive_mode", "on").setting("archive_command", command)
    }

    #[must_use]
    pub fn file(mut self, name: &str, contents: &[u8]) -> Self {
        self.files.push((name.to_owned(), contents.to_owned()));
        self
    }

    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.hba.push(line.to_owned());
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Ends the sessions, waits for the walsenders to send everything, writes a checkpoint.
    Fast,
    /// Ends without a checkpoint: the next start recovers from the WAL.
    Immediate,
}

/// Enough for a slot per concurrent test, and for WAL that is not recycled in the middle of a
/// measurement.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "'127.0.0.1'"),
    ("wal_level", "logical"),
    ("max_replication_slots", "64"),
    ("max_wal_senders", "64"),
    ("max_connections", "200"),
    ("max_prepared_transactions", "64"),
    ("shared_buffers", "128MB"),
    ("max_wal_size", "4GB"),
    ("log_line_prefix", "'%m [%p] %a '"),
];

const START_WITHIN: Duration = Duration::from_secs(60);

pub struct PostgresServer {
    process: GuardedProcess,
    address: PostgresAddress,
    bin_dir: PathBuf,
    user: Option<ServerUser>,
    arguments: Vec<String>,
}

impl PostgresServer {
    pub fn start(options: PostgresOptions) -> PostgresServer {
        let process = GuardedProcess::new("postgres", Ending::Quit);
        let socket_dir = process.folder().to_owned();
        let address = PostgresAddress { port: free_port(), socket_dir };
        let user = ServerUser::when_root();
        let bin_dir = options.major_version.map_or_else(|| bin_dir().to_owned(), bin_dir_of);
        let arguments = options.arguments.clone();
        let mut server = PostgresServer { process, address, bin_dir, user, arguments };
        server.initialise(&options);
        server.start_again();
        server
    }

    fn append_settings(&self, lines: &str) {
        let path = self.data_dir().join("postgresql.conf");
        let mut file = OpenOptions::new().append(true).open(path).expect("no postgresql.conf");
        file.write_all(lines.as_bytes()).expect("cannot write postgresql.conf");
    }

    fn initialise(&mut self, options: &PostgresOptions) {
        let folder = self.process.folder().to_owned();
        if let Some(user) = self.user {
            user.own(&folder);
        }
        let password_file = folder.join("password");
        std::fs::write(&password_file, PASSWORD).expect("cannot write the password file");
        let method = match options.auth {
            TcpAuth::Trust => "trust",
            TcpAuth::Md5 => "md5",
            TcpAuth::ScramSha256 => "scram-sha-256",
        };
        let mut initdb = self.server_command("initdb");
        initdb.arg("--pgdata").arg(self.data_dir()).arg("--pwfile").arg(&password_file);
        initdb.args(["--username", USER, "--encoding=UTF8", "--locale=C", "--no-sync"]);
        initdb.args(["--auth-local=trust", &format!("--auth-host={method}")]);
        self.process.run_to_end(initdb, START_WITHIN);

        // Appended to the file, not passed as arguments, so that ALTER SYSTEM takes precedence.
        let mut lines = String::from("\n");
        for (name, value) in SETTINGS {
            writeln!(lines, "{name} = {value}").unwrap();
        }
        writeln!(lines, "port = {}", self.port()).unwrap();
        writeln!(lines, "unix_socket_directories = '{}'", folder.display()).unwrap();
        writeln!(lines, "fsync = {}", options.fsync).unwrap();
        for (name, value) in &options.extra_settings {
            writeln!(lines, "{name} = '{value}'").unwrap();
        }
        self.append_settings(&lines);
        self.add_files(options);
    }

    fn add_files(&self, options: &PostgresOptions) {
        for (name, contents) in &options.files {
            let path = self.data_dir().join(name);
            let mut file = OpenOptions::new();
            file.write(true).create(true).truncate(true).mode(0o600);
            let written = file.open(&path).and_then(|mut file| file.write_all(contents));
            written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
            if let Some(user) = self.user {
                user.own(&path);
            }
        }
        if options.hba.is_empty() {
            return;
        }
        let path = self.data_dir().join("pg_hba.conf");
        let rest = std::fs::read_to_string(&path).expect("no pg_hba.conf");
        let lines = format!("{}\n{rest}", options.hba.join("\n"));
        std::fs::write(&path, lines).expect("cannot write pg_hba.conf");
    }

    fn data_dir(&self) -> PathBuf {
        self.process.folder().join("data")
    }

    // A command that runs as the server's user, in a folder that this user can enter.
    fn server_command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin(program));
        command.current_dir(self.process.folder());
        if let Some(user) = self.user {
            user.apply(&mut command);
        }
        command
    }

    /// Starts a stopped server: same data, same port. Returns when it answers queries.
    pub fn start_again(&mut self) {
        self.begin_start();
        self.wait_ready();
    }

    /// Starts a stopped server without waiting for it.
    pub fn begin_start(&mut self) {
        let mut command = self.server_command("postgres");
        command.arg("-D").arg(self.data_dir()).args(&self.arguments);
        self.process.start(command);
    }

    pub fn wait_ready(&mut self) {
        let mut refusal = String::from("no attempt");
        let ready = poll_for(START_WITHIN, || {
            if let Some(status) = self.process.try_exit() {
                panic!("Postgres ended while starting ({status}):\n{}", self.log_tail(20));
            }
            let answer = self
                .address
                .try_client(USER)
                .and_then(|mut client| client.simple_query("SELECT 1").map(drop));
            answer.map_err(|error| refusal = format!("{error:?}")).ok()
        });
        let log = self.log_tail(20);
        assert!(ready.is_some(), "Postgres does not answer: {refusal}\n{log}");
    }

    /// Stops the server and returns how long it took; fails the test if longer than `within`.
    #[track_caller]
    pub fn stop(&mut self, mode: StopMode, within: Duration) -> Duration {
        let begun = Instant::now();
        self.begin_stop(mode);
        match self.process.wait(within) {
            Some(_) => begun.elapsed(),
            None => {
                let log = self.log_tail(20);
                panic!("Postgres did not stop ({mode:?}) within {within:?}:\n{log}");
            }
        }
    }

    /// Asks the server to stop, and does not wait.
    pub fn begin_stop(&self, mode: StopMode) {
        self.process.signal(match mode {
            StopMode::Fast => Signal::INT,
            StopMode::Immediate => Signal::QUIT,
        });
    }

    /// Sends SIGKILL to the postmaster and every backend, as if the machine had crashed.
    pub fn kill9(&mut self) {
        // Frozen first, so that it forks no backend that the list misses.
        self.process.signal(Signal::STOP);
        let backends = self.process.pid().map(child_pids).unwrap_or_default();
        self.process.kill9();
        for &pid in &backends {
            let _ = kill_process(pid, Signal::KILL);
        }
        // A new postmaster refuses to start while a backend of the old one is attached to its
        // shared memory.
        wait_until("the killed server's backends to be gone", Duration::from_secs(30), || {
            backends.iter().all(|&pid| has_ended(pid))
        });
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// How to reach the server, as a copy.
    pub fn address(&self) -> PostgresAddress {
        self.address.clone()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn socket_dir(&self) -> PathBuf {
        self.address.socket_dir().to_owned()
    }

    pub fn url(&self, database: &str) -> String {
        self.address.url(database)
    }

    #[track_caller]
    pub fn client(&self, database: &str) -> Client {
        self.address.client(database)
    }

    #[track_caller]
    pub fn create_database(&self) -> String {
        self.address.create_database("test")
    }

    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    /// The path of one of the server's programs.
    pub fn bin(&self, program: &str) -> PathBuf {
        self.bin_dir.join(program)
    }

    /// A client program (`pg_recvlogical`, `psql`) with `PG*` variables for the connection.
    pub fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(bin_dir().join(program));
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.port().to_string());
        command.env("PGUSER", USER).env("PGPASSWORD", PASSWORD);
        command
    }
}

fn child_pids(parent: u32) -> Vec<Pid> {
    let Ok(processes) = procfs::process::all_processes() else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|process| process.stat().ok())
        .filter(|stat| stat.ppid == parent.cast_signed())
        .filter_map(|stat| Pid::from_raw(stat.pid))
        .collect()
}

fn has_ended(pid: Pid) -> bool {
    let stat = procfs::process::Process::new(pid.as_raw_pid()).and_then(|it| it.stat());
    // A zombie holds no resources; without an init process it is never removed.
    stat.map_or(true, |stat| stat.state == 'Z')
}
