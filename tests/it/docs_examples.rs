//! The examples in the documentation are true: each one is configured, written and published by a
//! relay of its own, and compared with what the page shows.
//!
//! An example is a run of fenced blocks: `toml` or `sh` (its configuration), `sql` (its tables and
//! rows), and then what becomes of them: `record`, `parked` or `error`. [`page`] reads them.

mod page;
mod received;

use std::sync::Mutex;
use std::time::Duration;

use page::{Example, ParkedShown, RecordShown};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::mock::MockBroker;
use testkit::shared;
use testkit::wait::poll_for;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);
/// Of every topic.
const PARTITIONS: usize = 6;
/// They mostly wait for servers.
const AT_A_TIME: usize = 4;

#[test]
fn of_routing() {
    check_page("docs/routing.md", include_str!("../../docs/routing.md"));
}

#[test]
fn of_formats() {
    check_page("docs/formats.md", include_str!("../../docs/formats.md"));
}

#[test]
fn of_debezium() {
    check_page("docs/from-debezium.md", include_str!("../../docs/from-debezium.md"));
}

#[track_caller]
fn check_page(path: &str, text: &str) {
    let examples = page::examples(path, text);
    assert!(!examples.is_empty(), "{path} has no examples");
    let waiting = Mutex::new(examples.into_iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some(example) = next else { return };
                    if let Err(error) = check(&example) {
                        let place = format!("{path}:{}", example.line);
                        wrong.lock().unwrap().push(format!("{place}: {error}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} examples are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Each has a database and a broker of its own, so that pages can use any names.
fn check(example: &Example) -> Result<(), String> {
    let mock = MockBroker::start(1);
    let broker = mock.broker();
    let postgres = shared::postgres().address();
    let mut fixture = Fixture::unmigrated(BINARY, "docs", &postgres, &broker);
    for (name, value) in &example.variables {
        fixture.set(name, value);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("postrider.toml");
    std::fs::write(&file, &example.toml).unwrap();
    let mut client = fixture.client();
    for statement in &example.tables {
        client.batch_execute(statement).map_err(|error| format!("{statement}: {error:?}"))?;
    }
    // Where the file is found without being named, messages have its short name.
    let output = fixture.command(&["migrate"]).current_dir(folder.path()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    if let Some(error) = &example.error {
        return match output.status.code() {
            Some(2) if page::matches(error, &page::words(&errors)) => Ok(()),
            code => Err(format!("exit code {code:?}, expected 2 and\n{error}\nfound\n{errors}")),
        };
    }
    if !output.status.success() {
        return Err(format!("migrate failed: {errors}"));
    }
    for topic in example.topics() {
        broker.create_topic(topic, i32::try_from(PARTITIONS).unwrap(), &[]);
    }
    for statement in &example.rows {
        client.batch_execute(statement).map_err(|error| format!("{statement}: {error:?}"))?;
    }
    fixture.set("POSTRIDER_CONFIG", file.to_str().unwrap());
    fixture.start_relay();
    check_records(example, &mut fixture)?;
    check_parked(&example.parked, &fixture)
}

fn check_records(example: &Example, fixture: &mut Fixture) -> Result<(), String> {
    let expected: &[RecordShown] = &example.records;
    if expected.is_empty() {
        return Ok(());
    }
    let consumer = Consumer::new(fixture.broker(), &example.topics());
    let mut found = Vec::new();
    while found.len() < expected.len() {
        let Some(record) = consumer.next(SOON) else {
            let log = fixture.relay().log_tail(20);
            return Err(format!("{} of {} records arrived:\n{log}", found.len(), expected.len()));
        };
        found.push(record);
    }
    for shown in expected {
        let at = found.iter().position(|record| received::matches(shown, record, PARTITIONS));
        let Some(at) = at else {
            let found: Vec<_> = found.iter().map(received::show).collect();
            return Err(format!("no such record:\n{shown:#?}\namong\n{}", found.join("\n")));
        };
        found.remove(at);
    }
    Ok(())
}

fn check_parked(expected: &[ParkedShown], fixture: &Fixture) -> Result<(), String> {
    let sql = "SELECT topic, reason, status, form, last_error
        FROM postrider.undelivered ORDER BY id";
    let mut client = fixture.client();
    let rows = poll_for(SOON, || {
        let rows = client.query(sql, &[]).unwrap();
        (rows.len() >= expected.len()).then_some(rows)
    });
    let rows = rows.ok_or("too few events are parked")?;
    if rows.len() > expected.len() {
        return Err(format!("{} events are parked", rows.len()));
    }
    for (shown, row) in expected.iter().zip(rows) {
        for (at, name) in ["topic", "reason", "status", "form", "error"].into_iter().enumerate() {
            let found: String = row.get(at);
            let is_right = shown.get(name).is_none_or(|shown| page::matches(shown, &found));
            if !is_right {
                return Err(format!("{name} is {found:?} instead of {:?}", shown.get(name)));
            }
        }
    }
    Ok(())
}
