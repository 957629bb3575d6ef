//! `postrider teardown` drops what migrate created, and nothing of others.

mod kept;
mod refused;
mod several;

use std::process::Output;
use std::time::Duration;

use testkit::fixture::Fixture;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const SOON: Duration = Duration::from_secs(60);

/// Which objects of migrate exist.
#[track_caller]
fn inventory(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname = 'postrider'
        UNION ALL SELECT 'publication ' || pubname FROM pg_publication
        UNION ALL SELECT 'table ' || tablename FROM pg_tables WHERE schemaname = 'public'
        UNION ALL SELECT 'slot' FROM pg_replication_slots WHERE database = current_database()
        ORDER BY 1";
    let rows = fixture.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// The lines on standard output of a command that must exit with this code.
#[track_caller]
fn stdout_lines(output: &Output, code: i32) -> Vec<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_lines(lines: &[String], expect: &[&str]) {
    assert_eq!(lines.len(), expect.len(), "{lines:#?}");
    for (line, expect) in lines.iter().zip(expect) {
        assert!(line.starts_with(expect), "{line:?} does not begin with {expect:?}");
    }
}

#[test]
fn teardown_drops_everything_but_the_tables_and_can_be_run_again() {
    let fixture = Fixture::new(BINARY, "drops");
    let slot = format!("slot {}", fixture.slot());
    let lines = stdout_lines(&fixture.run(&["teardown", "--yes"]), 0);
    let expect = [
        &format!("dropped  {slot} ("),
        "dropped  publication postrider",
        "dropped  schema postrider",
        "kept     table public.outbox (--tables drops it)",
    ];
    assert_lines(&lines, &expect);
    assert_eq!(inventory(&fixture), ["table outbox"]);
    let lines = stdout_lines(&fixture.run(&["teardown", "--yes"]), 0);
    let expect = [
        &format!("missing  {slot}"),
        "missing  publication postrider",
        "missing  schema postrider",
        "kept     table public.outbox",
    ];
    assert_lines(&lines, &expect);
    // And back again.
    fixture.migrate();
    assert_eq!(inventory(&fixture).len(), 4);
}

#[test]
fn the_tables_are_dropped_on_request() {
    let mut fixture = Fixture::new(BINARY, "tables");
    fixture.set("POSTRIDER_TABLES", "public.outbox,public.\"Second \"\"outbox\"\"\"");
    fixture.migrate();
    let lines = stdout_lines(&fixture.run(&["teardown", "--tables", "--yes"]), 0);
    assert_eq!(lines.iter().filter(|line| line.starts_with("dropped  table")).count(), 2);
    assert_eq!(inventory(&fixture), Vec::<String>::new());
    let lines = stdout_lines(&fixture.run(&["teardown", "--tables", "--yes"]), 0);
    assert_eq!(lines.iter().filter(|line| line.starts_with("missing ")).count(), 5, "{lines:?}");
}

#[test]
fn without_yes_teardown_only_prints_what_it_would_do() {
    let fixture = Fixture::new(BINARY, "unsure");
    let before = inventory(&fixture);
    let output = fixture.run(&["teardown"]);
    let expect = [
        &format!("will drop slot {} (", fixture.slot()),
        "will drop publication postrider",
        "will drop schema postrider",
        "kept      table public.outbox",
    ];
    assert_lines(&stdout_lines(&output, 2), &expect);
    let errors = String::from_utf8_lossy(&output.stderr);
    crate::harness::halt::assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains("run `postrider teardown --yes`"), "{errors}");
    assert_eq!(inventory(&fixture), before);
    let output = fixture.run(&["teardown", "--tables"]);
    assert!(
        stdout_lines(&output, 2)
            .iter()
            .any(|line| line.starts_with("will drop table public.outbox"))
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("teardown --tables --yes"));
    assert_eq!(inventory(&fixture), before);
}

#[test]
fn teardown_waits_for_a_running_migrate() {
    let fixture = Fixture::new(BINARY, "turns");
    let mut client = fixture.client();
    let mut other = client.transaction().unwrap();
    let lock = "LOCK TABLE postrider.command_lock IN SHARE UPDATE EXCLUSIVE MODE";
    other.batch_execute(lock).unwrap();
    let mut command = fixture.command(&["teardown", "--yes"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let teardown = command.spawn().unwrap();
    testkit::wait::wait_until("teardown to wait", SOON, || {
        let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND datname = current_database())";
        fixture.client().query_one(sql, &[]).unwrap().get(0)
    });
    assert_eq!(inventory(&fixture).len(), 4, "teardown did not wait");
    other.commit().unwrap();
    stdout_lines(&teardown.wait_with_output().unwrap(), 0);
    assert_eq!(inventory(&fixture), ["table outbox"]);
}
