//! A migrate that lacks rights reports all of them before it creates anything.

use super::{BINARY, Roles};
use crate::harness::halt::assert_one_sentence_and_its_fix;
use testkit::fixture::Fixture;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;

/// The errors of the operator's migrate, which must exit with this code.
#[track_caller]
fn refusal(fixture: &Fixture, code: i32) -> String {
    let output = fixture.run(&["migrate"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_one_sentence_and_its_fix(&errors);
    errors
}

/// The statements of the fix.
#[track_caller]
fn fix_statements(errors: &str) -> String {
    let fix = errors.lines().last().and_then(|line| line.strip_prefix("fix: "));
    let statements = fix.and_then(|fix| fix.strip_prefix("run as an administrator: "));
    statements.unwrap_or_else(|| panic!("no statements in {errors:?}")).to_owned()
}

#[track_caller]
fn relations(roles: &Roles) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_publication)
        + (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())";
    roles.superuser().query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn everything_missing_is_reported_at_once_and_the_fix_works_as_printed() {
    let mut roles = Roles::new("at_once");
    let sql = "CREATE ROLE ROLE_NAME LOGIN; GRANT CONNECT ON DATABASE DATABASE_NAME TO ROLE_NAME;
        CREATE SCHEMA \"Their's\"; CREATE TABLE \"Their's\".outbox (topic text, payload json);
        CREATE SCHEMA ours";
    roles.as_superuser("operator", sql);
    let tables = "public.outbox,\"Their's\".outbox,ours.one,ours.two,new.outbox";
    roles.run_as("operator").set("POSTRIDER_TABLES", tables);
    let before = relations(&roles);
    let errors = refusal(&roles.fixture, 3);
    assert_eq!(relations(&roles), before, "something was created");
    let role = format!("\"{}\"", roles.name("operator"));
    let expect = [
        format!("GRANT USAGE, CREATE ON SCHEMA \"public\" TO {role};"),
        format!("GRANT USAGE ON SCHEMA \"Their's\" TO {role};"),
        format!(
            "ALTER TABLE \"Their's\".\"outbox\" OWNER TO {role} /* or: GRANT \"postgres\" TO {role} */;"
        ),
        format!("GRANT USAGE, CREATE ON SCHEMA \"ours\" TO {role};"),
        format!("GRANT CREATE ON DATABASE \"{}\" TO {role};", roles.fixture.database()),
        format!(
            "ALTER ROLE {role} REPLICATION /* on Amazon RDS: GRANT rds_replication TO {role} */;"
        ),
    ];
    assert_eq!(fix_statements(&errors), expect.join(" "));
    roles.superuser().batch_execute(&fix_statements(&errors)).unwrap();
    roles.fixture.migrate();
}

#[test]
fn objects_of_others_are_used_if_nothing_has_to_be_added() {
    let mut roles = Roles::new("others");
    roles.grant();
    roles.fixture.migrate();
    // The operator has no right on the schema.
    let errors = refusal(roles.run_as("operator"), 3);
    let role = format!("\"{}\"", roles.name("operator"));
    let expect = format!(
        "GRANT USAGE ON SCHEMA \"postrider\" TO {role}; \
         GRANT SELECT ON postrider.schema_version TO {role};"
    );
    assert_eq!(fix_statements(&errors), expect);
    roles.superuser().batch_execute(&fix_statements(&errors)).unwrap();
    // With the slot in place, nothing has to be created that needs it.
    roles.as_superuser("operator", "ALTER ROLE ROLE_NAME NOREPLICATION");
    let output = roles.fixture.run(&["migrate"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to change"));
    // An owned table can't be added to a publication of another owner.
    roles.fixture.set("POSTRIDER_TABLES", "public.outbox,public.more");
    let errors = refusal(&roles.fixture, 3);
    let expect = format!(
        "GRANT \"postgres\" TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON postrider.progress TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON postrider.coverage TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.outbox_columns TO {role};"
    );
    assert_eq!(fix_statements(&errors), expect);
    assert!(errors.contains("(to add public.more)"), "{errors}");
    roles.superuser().batch_execute(&fix_statements(&errors)).unwrap();
    roles.fixture.migrate();
}

#[test]
fn a_publication_of_all_tables_needs_a_superuser_only_once() {
    check_made_by_a_superuser("all_tables", "FOR ALL TABLES");
}

#[test]
fn a_publication_of_a_schema_needs_a_superuser_only_once() {
    if shared::postgres_is_without("publications of schemas", 15) {
        return;
    }
    check_made_by_a_superuser("in_schema", "FOR TABLES IN SCHEMA public");
}

/// The outbox created by the operator is published without a right on the publication.
#[track_caller]
fn check_made_by_a_superuser(name: &str, what: &str) {
    let mut roles = Roles::new(name);
    roles.grant();
    let sql = format!("CREATE PUBLICATION postrider {what} WITH (publish = 'insert')");
    roles.as_superuser("operator", &sql);
    roles.run_as("operator").migrate();
}

#[test]
fn a_server_without_spare_walsenders_is_not_reported_as_missing_rights() {
    let options = PostgresOptions::default().setting("max_wal_senders", "0");
    let server = PostgresServer::start(options);
    let fixture = Fixture::unmigrated(BINARY, "senders", &server.address(), &shared::broker());
    let errors = refusal(&fixture, 1);
    assert!(errors.contains("no replication connection to spare"), "{errors}");
    assert!(errors.contains("SQLSTATE 53300"), "{errors}");
    assert!(errors.contains("max_wal_senders"), "{errors}");
    assert!(!errors.contains("ALTER ROLE"), "{errors}");
}

#[test]
fn the_probe_closes_its_connection() {
    // There is one walsender: if one probe kept it, the next would find none.
    let options = PostgresOptions::default().setting("max_wal_senders", "1");
    let server = PostgresServer::start(options);
    for round in 0..3 {
        let name = format!("probe_{round}");
        let fixture = Fixture::unmigrated(BINARY, &name, &server.address(), &shared::broker());
        fixture.migrate();
    }
}
