//! The yardstick: Postgres's own client, which takes the stream and writes it to a file.

use std::time::{Duration, Instant};

use crate::backlog::{Backlog, Kind};
use crate::servers::Servers;
use crate::support::guardian::{Ending, GuardedProcess};

const LOOK_EVERY: Duration = Duration::from_millis(2);
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
    let mut command = servers.postgres.tool("pg_recvlogical");
    command.args(["--start", "--no-loop", "--slot", slot, "--endpos", &backlog.end]);
    command.args(["--dbname", backlog.fixture.database()]);
    command.args(["-o", "proto_version=1", "-o", "publication_names=postrider"]);
    if values == Values::Binary {
        command.args(["-o", "binary=true"]);
    }
    if backlog.kind != Kind::Rows {
        command.args(["-o", "messages=true"]);
    }
    command.arg("--file").arg(&file);

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
