//! Promises for a slot are kept, or the relay stops and reports it.

mod elsewhere;
mod harmless;
mod lapses;
mod promised;
mod withdrawn;

use std::process::Output;
use std::time::Duration;

use crate::harness::halt::wait_halt;
use testkit::consumer::Received;
use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);

#[track_caller]
fn sql(fixture: &Fixture, statement: &str) {
    fixture
        .client()
        .batch_execute(statement)
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Writes events into a table, each in its own transaction; their values are "what-1", …
#[track_caller]
fn write(fixture: &Fixture, table: &str, topic: &str, what: &str, events: usize) -> Vec<String> {
    let statement = format!("INSERT INTO {table} (topic, payload) VALUES ($1, to_json($2::text))");
    let mut client = fixture.client();
    let values = (1..=events).map(|number| format!("{what}-{number}"));
    let write = |value: String| {
        client.execute(&statement, &[&topic, &value]).unwrap();
        format!("\"{value}\"")
    };
    values.map(write).collect()
}

/// Waits until all of these values are in Kafka.
#[track_caller]
fn assert_published(fixture: &Fixture, values: &[String]) {
    fixture.consumer().read_until(SOON, |records| {
        let published: Vec<&str> = records.iter().filter_map(Received::value_text).collect();
        values.iter().all(|value| published.contains(&value.as_str()))
    });
}

fn text(output: &Output) -> String {
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

/// Runs a command that must exit with this code, and returns its output.
#[track_caller]
fn run(fixture: &Fixture, arguments: &[&str], code: i32) -> String {
    let output = fixture.run(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
    text(&output)
}

#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    assert!(status.success(), "{}", fixture.relay().log());
}

/// The tables that are promised for the fixture's slot.
#[track_caller]
fn promised(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT outbox::text FROM postrider.coverage WHERE slot = $1 ORDER BY 1";
    let rows = fixture.client().query(sql, &[&fixture.slot()]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Waits until the relay halts with these words in its log.
#[track_caller]
fn assert_halts(fixture: &mut Fixture, words: &[&str]) {
    let log = wait_halt(fixture);
    for word in words {
        assert!(log.contains(word), "{word:?} is not in\n{log}");
    }
}
