//! How the relay logs in, and what it reports if the server refuses.

use super::{BINARY, assert_publishes, write_event};
use crate::harness::halt::assert_halts_at_start;
use crate::harness::servers;
use testkit::fixture::Fixture;
use testkit::postgres::PostgresServer;
use testkit::shared;

const WRONG: &str = "not-the-passw0rd";

/// A migrated database with a waiting event.
#[track_caller]
fn on(server: &PostgresServer, name: &str) -> Fixture {
    let fixture = Fixture::on(BINARY, name, &server.address(), &shared::broker());
    write_event(&fixture, "anything");
    fixture
}

fn url(server: &PostgresServer, user: &str, database: &str) -> String {
    let port = server.port();
    format!("postgresql://{user}@127.0.0.1:{port}/{database}")
}

#[track_caller]
fn check_wrong_password(server: &PostgresServer) {
    let mut fixture = on(server, "wrong_password");
    let user = format!("postgres:{WRONG}");
    let url = url(server, &user, fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let what = "as postgres: password authentication failed";
    let log = assert_halts_at_start(&mut fixture, what, "the right user and password");
    assert!(!log.contains(WRONG), "a password in the log:\n{log}");
}

#[track_caller]
fn check_missing_password(server: &PostgresServer) {
    let mut fixture = on(server, "no_password");
    let url = url(server, "postgres", fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    assert_halts_at_start(&mut fixture, "password missing", "PGPASSWORD");
}

#[test]
fn scram_works() {
    let server = servers::scram();
    let broker = shared::broker();
    assert_publishes(&mut Fixture::on(BINARY, "scram", &server.address(), &broker));
}

#[test]
fn md5_works() {
    let server = servers::md5();
    let mut client = server.client("postgres");
    let sql = "SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'";
    let secret: String = client.query_one(sql, &[]).unwrap().get(0);
    assert!(secret.starts_with("md5"), "this would not test md5");
    let broker = shared::broker();
    assert_publishes(&mut Fixture::on(BINARY, "md5", &server.address(), &broker));
}

#[test]
fn a_unix_socket_works() {
    let (server, broker) = shared::pair();
    let mut fixture = Fixture::unmigrated(BINARY, "socket", &server.address(), &broker);
    let url = server.address().socket_url(fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.migrate();
    assert_publishes(&mut fixture);
}

#[test]
fn a_password_from_the_environment_works() {
    let server = servers::scram();
    let mut fixture = Fixture::on(BINARY, "env", &server.address(), &shared::broker());
    let url = url(server, "postgres", fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.set("PGPASSWORD", "postgres");
    assert_publishes(&mut fixture);
}

#[test]
fn a_wrong_scram_password_is_reported() {
    check_wrong_password(servers::scram());
}

#[test]
fn a_wrong_md5_password_is_reported() {
    check_wrong_password(servers::md5());
}

#[test]
fn a_missing_scram_password_is_reported() {
    check_missing_password(servers::scram());
}

#[test]
fn a_missing_md5_password_is_reported() {
    check_missing_password(servers::md5());
}

#[test]
fn an_unknown_role_is_reported() {
    let server = shared::postgres();
    let mut fixture = on(server, "no_role");
    let url = url(server, "nobody_of_that_name", fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let what = "role \"nobody_of_that_name\" does not exist";
    assert_halts_at_start(&mut fixture, what, "the right user");
}

#[test]
fn an_unknown_database_is_reported() {
    let server = shared::postgres();
    let mut fixture = on(server, "no_database");
    let url = url(server, "postgres", "no_such_database");
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let what = "database \"no_such_database\" does not exist";
    assert_halts_at_start(&mut fixture, what, "create the database");
}

#[test]
fn a_role_without_replication_is_reported() {
    let server = shared::postgres();
    let mut fixture = on(server, "no_replication");
    let role = format!("role_{}", fixture.database());
    let mut client = fixture.client();
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let url = url(server, &role, fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    assert_halts_at_start(&mut fixture, "SQLSTATE 42501", "ALTER ROLE … REPLICATION");
    client.batch_execute(&format!("DROP ROLE {role}")).unwrap();
}

#[test]
fn a_server_without_logical_decoding_is_reported() {
    let server = servers::without_logical_decoding();
    let broker = shared::broker();
    let mut fixture = Fixture::unmigrated(BINARY, "replica", &server.address(), &broker);
    let fix = "run ALTER SYSTEM SET wal_level = logical, and restart the server (on Amazon RDS: set \
               rds.logical_replication = 1 in its parameter group, and reboot)";
    assert_halts_at_start(&mut fixture, "wal_level = replica", fix);
}
