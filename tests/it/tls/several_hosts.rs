//! Several hosts in one connection string: one is chosen, and both connections go there.

use super::{BINARY, publish};
use crate::startup::write_event;
use crate::support::fixture::Fixture;
use crate::support::port::free_port;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::shared;
use crate::support::wait::wait_until;

#[test]
fn a_host_that_is_down_is_passed_over() {
    let mut fixture = Fixture::new(BINARY, "hosts_down");
    let (port, database) = (fixture.postgres().port(), fixture.database());
    let down = free_port();
    let url = format!("postgres://postgres@127.0.0.1:{down},127.0.0.1:{port}/{database}");
    assert_eq!(publish(&mut fixture, &url), (0, 2));
}

#[test]
fn the_host_that_can_be_written_to_is_chosen() {
    let mut fixture = Fixture::new(BINARY, "hosts_primary");
    // As a standby would say it.
    let read_only = PostgresServer::start(PostgresOptions { fsync: false, ..Default::default() });
    let database = fixture.database().to_owned();
    let mut client = read_only.client("postgres");
    client.batch_execute(&format!("CREATE DATABASE \"{database}\"")).unwrap();
    let sql = "ALTER ROLE postgres SET default_transaction_read_only = on";
    client.batch_execute(sql).unwrap();
    let (port, other) = (fixture.postgres().port(), read_only.port());
    let url = format!(
        "host=127.0.0.1,127.0.0.1 port={other},{port} dbname={database} user=postgres \
         target_session_attrs=read-write"
    );
    assert_eq!(publish(&mut fixture, &url), (0, 2));
}

#[test]
fn all_hosts_that_are_away_are_named() {
    let mut fixture = Fixture::new(BINARY, "hosts_away");
    write_event(&fixture, "anything");
    let (one, two) = (free_port(), free_port());
    let url = format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{two}/x");
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let relay = fixture.start_relay();
    wait_until("both hosts in the reason", super::SOON, || {
        let Ok((503, body)) = relay.http_get("/readyz") else { return false };
        body.contains(&one.to_string()) && body.contains(&two.to_string())
    });
    assert!(relay.is_running());
}

#[test]
fn a_password_file_has_a_password_for_each_host() {
    let server = crate::servers::scram();
    let mut fixture = Fixture::on(BINARY, "hosts_pgpass", &server.address(), &shared::broker());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pgpass");
    let (port, database, down) = (server.port(), fixture.database().to_owned(), free_port());
    let lines = format!("127.0.0.1:{down}:*:*:wrong\n127.0.0.1:{port}:{database}:*:postgres\n");
    std::fs::write(&path, lines).unwrap();
    fixture.set("PGPASSFILE", &path.display().to_string());
    let url = format!("postgres://postgres@127.0.0.1:{down},127.0.0.1:{port}/{database}");
    assert_eq!(publish(&mut fixture, &url), (0, 2));
}
