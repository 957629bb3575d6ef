//! Existing objects work as they are, or are refused with the fix.

mod columns;
mod encodings;
mod identifiers;
mod partitions;
mod publications;
mod slots;
mod tables;

use std::time::Duration;

use crate::harness::halt::assert_one_sentence_and_its_fix;
use testkit::consumer::Received;
use testkit::fixture::Fixture;
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// A database in which this SQL was run, without migrate.
#[track_caller]
fn prepared(name: &str, sql: &str) -> Fixture {
    let (postgres, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, name, &postgres.address(), &broker);
    execute(&fixture, &sql.replace("SLOT", fixture.slot()));
    fixture
}

/// Each statement separately: together they would be one transaction.
#[track_caller]
fn execute(fixture: &Fixture, sql: &str) {
    let mut client = fixture.client();
    for statement in sql.split(';') {
        let done = client.batch_execute(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

/// Runs SQL in which TOPIC stands for the topic.
#[track_caller]
fn write(fixture: &Fixture, topic: &str, sql: &str) {
    execute(fixture, &sql.replace("TOPIC", topic));
}

/// Publishes the rows written by this SQL through one partition, where all of them keep their
/// order.
#[track_caller]
fn publish(fixture: &mut Fixture, sql: &str, count: usize) -> Vec<Received> {
    let topic = fixture.create_topic("orders", 1, &[]);
    write(fixture, &topic, sql);
    fixture.start_relay().wait_ready(SOON);
    fixture.consumer().read_n(count, SOON)
}

fn values(records: &[Received]) -> Vec<&str> {
    records.iter().filter_map(Received::value_text).collect()
}

/// Both commands must ask for an operator with this message and this fix.
#[track_caller]
fn assert_refused(fixture: &mut Fixture, what: &str, fix: &str) {
    for command in ["migrate", "run"] {
        let output = fixture.run(&[command]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}: {errors}");
        assert_one_sentence_and_its_fix(&errors);
        assert!(errors.contains(what), "{command}: {what:?} is not in\n{errors}");
        let fix_line = errors.lines().last().unwrap();
        assert!(fix_line.contains(fix), "{command}: {fix:?} is not in {fix_line:?}");
    }
}
