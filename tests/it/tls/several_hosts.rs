//! Several hosts in one connection string: one is chosen, and both connections go there.

use std::sync::OnceLock;

use super::{BINARY, publish};
use crate::startup::write_event;
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::postgres::{PostgresOptions, PostgresServer};
use testkit::shared;
use testkit::wait::wait_until;

#[test]
fn an_unreachable_host_is_skipped() {
    let mut fixture = Fixture::new(BINARY, "hosts_down");
    let (port, database) = (fixture.postgres().port(), fixture.database());
    let down = free_port();
    let url = format!("postgres://postgres@127.0.0.1:{down},127.0.0.1:{port}/{database}");
    assert_eq!(publish(&mut fixture, &url), (0, 2));
}

/// A primary, and a standby that follows it.
fn with_standby() -> &'static (PostgresServer, PostgresServer) {
    static SERVERS: OnceLock<(PostgresServer, PostgresServer)> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let primary = PostgresServer::start(PostgresOptions::default());
        let standby = primary.start_standby();
        (primary, standby)
    })
}

/// Waits until the standby has the fixture's database; without it there would be another error.
#[track_caller]
fn wait_for_copy(fixture: &Fixture, standby: &PostgresServer) {
    wait_until("the database on the standby", super::SOON, || {
        standby.address().try_client(fixture.database()).is_ok()
    });
}

#[test]
fn the_writable_host_is_chosen() {
    let (primary, standby) = with_standby();
    for attributes in ["read-write", "primary"] {
        let broker = shared::broker();
        let mut fixture = Fixture::on(BINARY, "hosts_primary", &primary.address(), &broker);
        wait_for_copy(&fixture, standby);
        let url = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} dbname={} user=postgres \
             target_session_attrs={attributes}",
            standby.port(),
            primary.port(),
            fixture.database()
        );
        assert_eq!(publish(&mut fixture, &url), (0, 2), "{attributes}");
    }
}

#[test]
fn a_standby_is_waited_for_and_the_way_to_the_primary_is_reported() {
    let (primary, standby) = with_standby();
    let mut fixture = Fixture::on(BINARY, "standby", &primary.address(), &shared::broker());
    wait_for_copy(&fixture, standby);
    fixture.set("POSTRIDER_DATABASE_URL", &standby.url(fixture.database()));
    for enabled in ["true", "false"] {
        let relay = fixture.set("POSTRIDER_RELAY_ENABLED", enabled).start_relay();
        wait_until("the fix in the reason", super::SOON, || {
            let Ok((503, body)) = relay.http_get("/readyz") else { return false };
            body.contains("standby") && body.contains("target_session_attrs=read-write")
        });
        assert_eq!(relay.http_get("/livez").unwrap().0, 200);
        relay.terminate();
        assert_eq!(relay.wait_exit(super::SOON).code(), Some(0), "{}", relay.log());
    }
    // The name may point to the primary later.
    let url = primary.url(fixture.database());
    fixture.set("POSTRIDER_RELAY_ENABLED", "true");
    assert_eq!(publish(&mut fixture, &url), (0, 2));
}

#[test]
fn all_unreachable_hosts_are_named() {
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
    let server = crate::harness::servers::scram();
    let mut fixture = Fixture::on(BINARY, "hosts_pgpass", &server.address(), &shared::broker());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pgpass");
    let (port, database, down) = (server.port(), fixture.database().to_owned(), free_port());
    let lines = format!("127.0.0.1:{down}:*:*:wrong\n127.0.0.1:{port}:{database}:*:postgres\n");
    std::fs::write(&path, lines).unwrap();
    testkit::mode::set_mode(&path, 0o600);
    fixture.set("PGPASSFILE", &path.display().to_string());
    let url = format!("postgres://postgres@127.0.0.1:{down},127.0.0.1:{port}/{database}");
    assert_eq!(publish(&mut fixture, &url), (0, 2));
}
