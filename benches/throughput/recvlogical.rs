//! The yardstick: Postgres's own client, which reads the stream and writes it to a file.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::backlog::{Backlog, Kind};
use crate::servers::Servers;
use testkit::guardian::{Ending, GuardedProcess};

const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Checking a file's length costs next to nothing.
const LOOK_AT_FILE_EVERY: Duration = Duration::from_micros(500);
const WITHIN: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Text,
    Binary,
}

/// Drains the backlog through the slot and returns how long it took.
pub(crate) fn drain(servers: &Servers, backlog: &Backlog, slot: &str, values: Values) -> Duration {
    let mut process = GuardedProcess::new("recvlogical", Ending::Kill);
    let file = process.folder().join("stream");
    let mut command = command(servers, backlog.fixture.database(), slot, &file);
    command.args(["--endpos", &backlog.end]);
    if values == Values::Binary {
        command.args(["-o", "binary=true"]);
    }
    if backlog.kind != Kind::Rows {
        command.args(["-o", "messages=true"]);
    }

    let begun = Instant::now();
    process.start(command);
    let status = loop {
        if let Some(status) = process.try_exit() {
            break status;
        }
        assert!(begun.elapsed() < WITHIN, "pg_recvlogical does not end");
        std::thread::sleep(LOOK_EVERY);
    };
    let took = begun.elapsed();
    let log = process.log_tail(5);
    assert!(status.success(), "pg_recvlogical failed ({status}): {log}");
    let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
    assert!(bytes > backlog.rows as u64 * 200, "pg_recvlogical wrote only {bytes} bytes: {log}");
    took
}

/// How long it takes from the start of the process until something of the log is in the file.
pub(crate) fn first_frame(servers: &Servers, database: &str, slot: &str) -> Duration {
    let mut process = GuardedProcess::new("recvlogical", Ending::Kill);
    let file = process.folder().join("stream");
    let command = command(servers, database, slot, &file);
    let begun = Instant::now();
    process.start(command);
    // It writes each frame as it comes, without a buffer.
    while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
        let goes_on = process.is_running() && begun.elapsed() < WITHIN;
        assert!(goes_on, "pg_recvlogical has written nothing: {}", process.log_tail(5));
        std::thread::sleep(LOOK_AT_FILE_EVERY);
    }
    let took = begun.elapsed();
    process.kill9();
    took
}

fn command(servers: &Servers, database: &str, slot: &str, file: &Path) -> Command {
    let mut command = servers.postgres.tool("pg_recvlogical");
    command.args(["--start", "--no-loop", "--slot", slot, "--dbname", database]);
    command.args(["-o", "proto_version=1", "-o", "publication_names=postrider"]);
    command.arg("--file").arg(file);
    command
}
