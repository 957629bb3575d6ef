//! Servers and folders are gone after the tests, however these ended.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::guardian::{Ending, GuardedProcess};
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::wait::{wait_for, wait_until};

const WITHIN: Duration = Duration::from_secs(30);
const REPORT_TO: &str = "HARNESS_REPORT_TO";
const THEN: &str = "HARNESS_THEN";

/// Does nothing on its own: the tests below start this binary again with only this test, as a
/// process that holds a server and ends.
#[test]
fn holds_a_server() {
    let (Ok(report), Ok(then)) = (std::env::var(REPORT_TO), std::env::var(THEN)) else {
        return;
    };
    let server = PostgresServer::start(PostgresOptions::default());
    let line = format!("{} {}\n", server.pid().unwrap(), server.socket_dir().display());
    std::fs::File::create(report).unwrap().write_all(line.as_bytes()).unwrap();
    if then == "exit" {
        // Runs no destructors, as for the servers in statics.
        std::process::exit(0);
    }
    loop {
        std::thread::park();
    }
}

fn start_holder(report: &Path, then: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "harness::tests::guardian::holds_a_server"])
        .env(REPORT_TO, report)
        .env(THEN, then)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn read_report(report: &Path) -> (String, String) {
    wait_for("the holder's report", WITHIN, || {
        let text = std::fs::read_to_string(report).ok()?;
        let (pid, folder) = text.strip_suffix('\n')?.split_once(' ')?;
        Some((pid.to_owned(), folder.to_owned()))
    })
}

fn assert_all_gone(pid: &str, folder: &str) {
    wait_until("the server to end", WITHIN, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
    wait_until("the folder to be removed", WITHIN, || !Path::new(folder).exists());
}

#[test]
fn nothing_survives_a_sigkill_of_the_tests() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    let mut holder = start_holder(&report, "wait");
    let (pid, folder) = read_report(&report);
    assert!(Path::new(&folder).join("data/postmaster.pid").exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_all_gone(&pid, &folder);
}

#[test]
fn nothing_survives_a_normal_exit() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    assert!(start_holder(&report, "exit").wait().unwrap().success());
    let (pid, folder) = read_report(&report);
    assert_all_gone(&pid, &folder);
}

#[test]
fn drop_ends_the_process_and_removes_the_folder() {
    let mut guarded = GuardedProcess::new("sleeper", Ending::Kill);
    let mut command = Command::new("sh");
    command.args(["-c", "echo one; echo two >&2; exec sleep 600"]);
    guarded.start(command);
    wait_until("both lines in the log", WITHIN, || guarded.log() == "one\ntwo\n");
    assert_eq!(guarded.log_tail(1), "two");
    let (pid, folder) = (guarded.pid().unwrap(), guarded.folder().to_owned());
    drop(guarded);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}

#[test]
fn the_end_of_a_process_is_detected() {
    let mut guarded = GuardedProcess::new("short", Ending::Kill);
    let mut command = Command::new("sh");
    command.args(["-c", "exit 7"]);
    guarded.start(command);
    assert_eq!(guarded.wait(WITHIN).unwrap().code(), Some(7));
    assert!(guarded.pid().is_none());
    assert!(!guarded.is_running());
}
