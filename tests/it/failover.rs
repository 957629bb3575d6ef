//! The database continues elsewhere: on a promoted standby, from a backup, as a copy, as another
//! version. With the steps of docs/operations.md everything on the new server is in Kafka
//! afterwards.

mod moved;
mod promoted;
mod restored;
mod synced;
mod trouble;
mod waiting;
mod writers;

use std::process::Output;
use std::time::Duration;

use crate::harness::rig::{print_line, wait_caught_up};
use testkit::check::{Expected, Verdict};
use testkit::consumer::Consumer;
use testkit::fixture::Fixture;
use testkit::postgres::PostgresServer;
use testkit::wait::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

fn text(output: &Output) -> String {
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn succeed(fixture: &Fixture, arguments: &[&str]) -> String {
    let output = fixture.run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    text(&output)
}

/// Recovers as an operator does, with a dry run first.
#[track_caller]
fn recover(fixture: &Fixture) {
    let dry_run = succeed(fixture, &["recover", "--dry-run"]);
    let done = succeed(fixture, &["recover"]);
    print_line(&format!("{dry_run}\n{}", done.lines().last().unwrap_or_default()));
}

#[track_caller]
fn stop(fixture: &mut Fixture) {
    fixture.relay().terminate();
    let status = fixture.relay().wait_exit(SOON);
    assert!(status.success(), "{}", fixture.relay().log());
}

fn rows(fixture: &Fixture) -> usize {
    let sql = "SELECT count(*) FROM public.outbox";
    let rows: i64 = fixture.client().query_one(sql, &[]).unwrap().get(0);
    usize::try_from(rows).unwrap()
}

#[track_caller]
fn promote(standby: &PostgresServer) {
    let sql = "SELECT pg_promote()";
    let promoted: bool = standby.client("postgres").query_one(sql, &[]).unwrap().get(0);
    assert!(promoted, "{}", standby.log_tail(20));
}

#[track_caller]
fn wait_promoted(server: &PostgresServer) {
    wait_until("the server to leave recovery", SOON, || {
        let sql = "SELECT NOT pg_is_in_recovery()";
        server.client("postgres").query_one(sql, &[]).unwrap().get(0)
    });
}

/// Compares everything in the database with everything in Kafka, by idempotency keys: a promoted
/// server may reuse lost ids. A key has one writer, so its ids rise with its commits.
#[track_caller]
fn judge(fixture: &mut Fixture, what: &str) -> Verdict {
    wait_caught_up(fixture);
    let mut expected = Expected::default();
    let sql = "SELECT topic, ordering_key, idempotency_key FROM public.outbox ORDER BY id";
    for row in fixture.client().query(sql, &[]).unwrap() {
        expected.push(row.get(0), row.get(1), row.get::<_, String>(2));
    }
    let topic = fixture.topic("events");
    let consumer = Consumer::new(fixture.broker(), &[&topic]);
    let end: i64 = consumer.end_offsets(&topic).iter().sum();
    let mut check = testkit::check::Check::new(expected);
    for record in consumer.read_n(usize::try_from(end).unwrap(), SOON) {
        let key = record.header("idempotency-key").expect("a record without its header");
        check.see(&record.topic, record.partition, record.key_text().unwrap_or(""), key);
    }
    let verdict = check.verdict();
    print_line(&format!(
        "{what}: {} rows, {} records, {} repeated, {} of rows that are gone",
        verdict.expected, verdict.received, verdict.duplicates.count, verdict.unexpected.count
    ));
    verdict
}

/// Nothing in the database is missing, and keys are in order. Published events of rows that were
/// lost with the old server can't be taken back.
#[track_caller]
fn assert_nothing_missing(verdict: &Verdict) {
    let Verdict { lost, misplaced, out_of_order, split, .. } = verdict;
    let faults = [lost, misplaced, out_of_order, split];
    assert!(faults.iter().all(|fault| fault.count == 0), "{verdict}");
}
