//! A publication that others may use is kept, and so are objects built by others.

use super::{BINARY, assert_lines, inventory, stdout_lines};
use testkit::fixture::Fixture;
use testkit::shared;

/// Must drop the rest and keep the publication for this reason.
#[track_caller]
fn check(name: &str, sql: &str, why: &str) {
    let fixture = Fixture::new(BINARY, name);
    fixture.client().batch_execute(sql).unwrap();
    let lines = stdout_lines(&fixture.run(&["teardown", "--yes"]), 0);
    let kept = format!("kept     publication postrider ({why}; drop it by hand");
    let expect = [
        "dropped  slot ",
        kept.as_str(),
        "dropped  schema postrider",
        "kept     table public.outbox",
    ];
    assert_lines(&lines, &expect);
    assert!(inventory(&fixture).contains(&"publication postrider".to_owned()));
}

#[test]
fn a_publication_with_other_tables_is_kept() {
    check(
        "others",
        "CREATE TABLE orders (); ALTER PUBLICATION postrider ADD TABLE orders",
        "it publishes public.orders too",
    );
}

#[test]
fn a_publication_of_all_tables_is_kept() {
    check(
        "all",
        "DROP PUBLICATION postrider; CREATE PUBLICATION postrider FOR ALL TABLES",
        "it publishes all tables",
    );
}

#[test]
fn a_publication_of_a_schema_is_kept() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    check(
        "schema",
        "DROP PUBLICATION postrider; CREATE PUBLICATION postrider FOR TABLES IN SCHEMA public",
        "it publishes schema public too",
    );
}

#[test]
fn a_view_on_the_state_keeps_the_schema() {
    let fixture = Fixture::new(BINARY, "view");
    let sql = "CREATE VIEW versions AS SELECT version FROM postrider.schema_version";
    fixture.client().batch_execute(sql).unwrap();
    let output = fixture.run(&["teardown", "--yes"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    crate::harness::halt::assert_one_sentence_and_its_fix(&errors);
    assert!(errors.contains("SQLSTATE 2BP01"), "{errors}");
    // The slot is dropped, which matters most; the rest is one transaction.
    let left = ["publication postrider", "schema postrider", "table outbox"];
    assert_eq!(inventory(&fixture), left);
    fixture.client().batch_execute("DROP VIEW versions").unwrap();
    stdout_lines(&fixture.run(&["teardown", "--yes"]), 0);
    assert_eq!(inventory(&fixture), ["table outbox"]);
}
