//! What can't work is refused before anything is created.

use super::{BINARY, assert_refuses, empty, inventory, prepared};
use crate::harness::servers;
use testkit::fixture::Fixture;
use testkit::shared;

/// Must be refused for an operator, and must not change the database.
#[track_caller]
fn check(name: &str, sql: &str, what: &str, fix: &str) -> Fixture {
    let fixture = prepared(name, sql);
    let before = inventory(&fixture);
    assert_refuses(&fixture, 3, what, fix);
    assert_eq!(inventory(&fixture), before, "something was created");
    fixture
}

#[test]
fn a_table_without_the_required_columns_is_refused() {
    check(
        "columns",
        "CREATE TABLE outbox (id int, topic text)",
        "table public.outbox has no column \"payload\"",
        "add the column",
    );
}

#[test]
fn a_view_is_refused() {
    check(
        "view",
        "CREATE VIEW outbox AS SELECT ''::text AS topic, ''::text AS payload",
        "it is a view",
        "postgres.tables",
    );
}

#[test]
fn an_unlogged_table_is_refused() {
    check(
        "unlogged",
        "CREATE UNLOGGED TABLE outbox (topic text, payload json)",
        "UNLOGGED, so its rows are not in the WAL",
        "postgres.tables",
    );
}

#[test]
fn a_publication_without_inserts_is_refused() {
    check(
        "no_inserts",
        "CREATE PUBLICATION postrider FOR ALL TABLES WITH (publish = 'update')",
        "does not publish inserts",
        "SET (publish = 'insert')",
    );
}

#[test]
fn partitions_sent_under_their_own_names_are_refused() {
    check(
        "partitions",
        "CREATE TABLE outbox (topic text, payload json) PARTITION BY HASH (topic);
         CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES WITH (MODULUS 1, REMAINDER 0);
         CREATE PUBLICATION postrider FOR TABLE outbox",
        "publishes partitions of public.outbox under their own names",
        "publish_via_partition_root = true",
    );
}

#[test]
fn a_slot_older_than_its_publication_is_refused() {
    check(
        "old_slot",
        "SELECT pg_create_logical_replication_slot('SLOT', 'pgoutput')",
        "exists but publication postrider does not",
        "pg_drop_replication_slot",
    );
}

#[test]
fn a_slot_of_another_plugin_is_refused() {
    check(
        "plugin",
        "SELECT pg_create_logical_replication_slot('SLOT', 'test_decoding')",
        "test_decoding, not pgoutput",
        "choose another name for postgres.slot",
    );
}

#[test]
fn a_physical_slot_is_refused() {
    let fixture = check(
        "physical",
        "SELECT pg_create_physical_replication_slot('SLOT')",
        "physical, not pgoutput",
        "choose another name for postgres.slot",
    );
    // It belongs to no database, so the fixture would not drop it.
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
}

#[test]
fn a_slot_of_another_database_is_refused() {
    let theirs = Fixture::new(BINARY, "theirs");
    let mut ours = empty("ours");
    ours.set("POSTRIDER_SLOT", theirs.slot());
    let what = format!("belongs to database {}, not to {}", theirs.database(), ours.database());
    assert_refuses(&ours, 3, &what, "choose another name for postgres.slot");
    assert_eq!(inventory(&ours), Vec::<String>::new());
}

#[test]
fn a_server_without_logical_decoding_is_refused() {
    let address = servers::without_logical_decoding().address();
    let fixture = Fixture::unmigrated(BINARY, "replica", &address, &shared::broker());
    let fix = "run ALTER SYSTEM SET wal_level = logical, and restart the server (on Amazon RDS: set \
               rds.logical_replication = 1 in its parameter group, and reboot)";
    assert_refuses(&fixture, 3, "wal_level = replica", fix);
    assert_eq!(inventory(&fixture), Vec::<String>::new());
}

#[test]
fn a_failed_login_is_reported() {
    let server = servers::scram();
    let address = server.address();
    let mut fixture = Fixture::unmigrated(BINARY, "strangers", &address, &shared::broker());
    let port = server.port();
    let database = fixture.database().to_owned();
    let mut check = |user: &str, database: &str, what: &str, fix: &str| {
        let url = format!("postgresql://{user}@127.0.0.1:{port}/{database}");
        fixture.set("POSTRIDER_DATABASE_URL", &url);
        let errors = assert_refuses(&fixture, 3, what, fix);
        assert!(!errors.contains("wr0ng"), "a password in:\n{errors}");
    };
    let fix = "the right user and password";
    let what = "password authentication failed";
    check("postgres:wr0ng", &database, what, fix);
    check("nobody:wr0ng", &database, what, fix);
    check("postgres", &database, "password missing", fix);
    let what = "database \"nowhere\" does not exist";
    check("postgres:postgres", "nowhere", what, "create the database");
}

#[test]
fn a_role_without_the_right_to_create_is_refused() {
    let mut fixture = empty("no_rights");
    let role = format!("role_{}", fixture.database());
    let mut client = fixture.client();
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let url = fixture.postgres().url(fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url.replace("postgres:postgres@", &format!("{role}@")));
    let what = "CREATE on database";
    assert_refuses(&fixture, 3, what, "run as an administrator: GRANT");
    assert_eq!(inventory(&fixture), Vec::<String>::new());
    client.batch_execute(&format!("DROP ROLE {role}")).unwrap();
}

#[test]
fn an_unreachable_server_is_a_temporary_failure() {
    let mut fixture = empty("nobody");
    let port = testkit::port::free_port();
    let url = fixture.postgres().url_via(port, fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    assert_refuses(&fixture, 1, "can't connect to Postgres", "run migrate again");
}
