//! `postrider migrate` creates what is missing, refuses what can't work, and changes nothing else.

mod additions;
mod created;
mod existing_rows;
mod landed;
mod outbox_columns;
pub(crate) mod print;
mod refused;
mod serialized;
pub(crate) mod upgraded;
mod versions;

use std::process::Output;
use std::time::Duration;

use crate::harness::halt::assert_one_sentence_and_its_fix;
use testkit::fixture::Fixture;
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// An empty database on the shared server. Most of these tests need no broker at all.
#[track_caller]
fn empty(name: &str) -> Fixture {
    let (server, broker) = shared::pair();
    Fixture::unmigrated(BINARY, name, &server.address(), &broker)
}

/// An empty database in which this SQL was run.
#[track_caller]
fn prepared(name: &str, sql: &str) -> Fixture {
    let fixture = empty(name);
    let sql = sql.replace("SLOT", fixture.slot());
    fixture.client().batch_execute(&sql).unwrap();
    fixture
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Checks what migrate reports for each object: `created`, `updated` or `found`.
#[track_caller]
fn assert_changes(output: &Output, expect: &[(&str, &str)]) {
    let stdout = stdout(output);
    for (change, thing) in expect {
        let line = format!("{change:<8} {thing}");
        let found = stdout.lines().any(|it| it.starts_with(&line));
        assert!(found, "{line:?} is not in\n{stdout}");
    }
}

/// Must fail with this exit code, one message and its fix; returns the error output.
#[track_caller]
fn assert_refuses(fixture: &Fixture, code: i32, what: &str, fix: &str) -> String {
    let output = fixture.run(&["migrate"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains(what), "{what:?} is not in\n{errors}");
    let fix_line = errors.lines().last().unwrap();
    assert!(fix_line.contains(fix), "{fix:?} is not in {fix_line:?}");
    errors
}

/// The schema, publications and slots in the database.
#[track_caller]
fn inventory(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname = 'postrider'
        UNION ALL SELECT 'publication ' || pubname FROM pg_publication
        UNION ALL SELECT 'table ' || c.oid::regclass::text FROM pg_class c
            JOIN pg_namespace n ON n.oid = relnamespace
            WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
              AND relkind IN ('r', 'p', 'v')
        UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots
            WHERE database = current_database()
        ORDER BY 1";
    let rows = fixture.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}
