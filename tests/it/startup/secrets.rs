//! Passwords are sent only to their servers, and are not shown anywhere.

use super::{BINARY, SOON, assert_publishes, assert_publishes_with, write_event};
use crate::harness::servers;
use testkit::fixture::Fixture;
use testkit::mode::set_mode;
use testkit::relay::Relay;
use testkit::shared;
use testkit::wait::wait_until;

/// Part of every marker, and of nothing else.
const MARK: &str = "hunter2";
const PAGES: [&str; 5] = ["/", "/livez", "/readyz", "/status", "/metrics"];

/// Checks that the secret is not in the log, nor on any page while pages are served.
#[track_caller]
pub fn assert_silent_about(secret: &str, relay: &mut Relay) {
    let log = relay.log();
    assert!(!log.contains(secret), "a secret in the log:\n{log}");
    if relay.is_running() {
        for page in PAGES {
            let (_, body) = relay.http_get(page).unwrap();
            assert!(!body.contains(secret), "a secret in {page}: {body}");
        }
    }
}

#[track_caller]
fn assert_silent(relay: &mut Relay) {
    assert_silent_about(MARK, relay);
}

/// A migrated fixture with a role whose password is the marker.
fn marked(name: &str) -> Fixture {
    let server = servers::scram();
    let mut fixture = Fixture::on(BINARY, name, &server.address(), &shared::broker());
    let role = format!("r_{}", fixture.database());
    let sql = format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{MARK}-postgres'");
    fixture.client().batch_execute(&sql).unwrap();
    let url = url(&fixture, &format!(":{MARK}-postgres"));
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    // Dependencies log too.
    fixture.set("POSTRIDER_LOG", "postrider=trace,trace");
    fixture
}

/// The role's URL, with a password or without.
fn url(fixture: &Fixture, password: &str) -> String {
    let (port, database) = (fixture.postgres().port(), fixture.database());
    format!("postgres://r_{database}{password}@127.0.0.1:{port}/{database}")
}

/// Configures Kafka with a password; no broker is contacted here.
fn mark_kafka(fixture: &mut Fixture) {
    let password = format!("{MARK}-kafka");
    for (property, value) in [
        ("SECURITY_PROTOCOL", "sasl_ssl"),
        ("SASL_MECHANISM", "SCRAM-SHA-512"),
        ("SASL_USERNAME", "postrider"),
        ("SASL_PASSWORD", &password),
        ("SSL_KEY_PASSWORD", &password),
    ] {
        fixture.set(&format!("POSTRIDER_KAFKA_PROPERTIES_{property}"), value);
    }
}

#[test]
fn a_working_relay_shows_no_password() {
    for format in ["text", "json"] {
        let mut fixture = marked("secrets_work");
        fixture.set("POSTRIDER_LOG_FORMAT", format);
        assert_publishes(&mut fixture);
        let relay = fixture.relay();
        assert!(relay.log().contains("DEBUG"), "this would not test much:\n{}", relay.log());
        assert_silent(relay);
        relay.terminate();
        assert_eq!(relay.wait_exit(SOON).code(), Some(0));
        assert_silent(relay);
        let output = fixture.run(&["migrate"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !stderr.contains(MARK), "{stderr}");
    }
}

#[test]
fn no_password_is_shown_however_it_was_configured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let path = file.display().to_string();
    let without_url = |name: &str| {
        let mut fixture = marked(name);
        fixture.unset("POSTRIDER_DATABASE_URL");
        fixture
    };

    let mut fixture = without_url("secrets_flag");
    let with_password = url(&fixture, &format!(":{MARK}-postgres"));
    check_works(&mut fixture, &["--database-url", &with_password]);

    let mut fixture = without_url("secrets_variable");
    fixture.set("PGPASSWORD", &format!("{MARK}-postgres"));
    let without = url(&fixture, "");
    check_works(&mut fixture, &["--database-url", &without]);

    let mut fixture = without_url("secrets_passfile");
    std::fs::write(&file, format!("*:*:*:*:{MARK}-postgres\n")).unwrap();
    set_mode(&file, 0o600);
    fixture.set("PGPASSFILE", &path);
    let without = url(&fixture, "");
    check_works(&mut fixture, &["--database-url", &without]);

    let mut fixture = without_url("secrets_file");
    std::fs::write(&file, url(&fixture, &format!(":{MARK}-postgres"))).unwrap();
    fixture.set("POSTRIDER_DATABASE_URL_FILE", &path);
    check_works(&mut fixture, &[]);
}

#[track_caller]
fn check_works(fixture: &mut Fixture, flags: &[&str]) {
    assert_publishes_with(fixture, flags);
    let relay = fixture.relay();
    assert!(relay.log().contains("DEBUG"), "this would not test much:\n{}", relay.log());
    assert_silent(relay);
}

#[test]
fn a_refused_relay_shows_no_password() {
    let mut fixture = marked("secrets_refused");
    mark_kafka(&mut fixture);
    write_event(&fixture, "anything");
    let port = fixture.postgres().port();
    let url = format!("host=127.0.0.1 port={port} user=nobody password={MARK}-wrong");
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let relay = fixture.start_relay();
    assert_eq!(relay.wait_exit(SOON).code(), Some(3), "{}", relay.log());
    assert_silent(relay);
}

#[test]
fn a_waiting_relay_shows_no_password() {
    let mut fixture = marked("secrets_wait");
    mark_kafka(&mut fixture);
    let url = format!("postgres://u:{MARK}-away@no-such-host.invalid/db");
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    let relay = fixture.start_relay();
    wait_until("the relay to report what it waits for", SOON, || {
        relay.http_get("/readyz").is_ok_and(|(_, body)| body.contains("no-such-host"))
    });
    assert_silent(relay);
}

/// A `/` or an `@` in a password splits a URL in the wrong place; then a part of the password is
/// taken for a host or a database.
#[test]
fn the_password_in_a_malformed_url_is_not_shown() {
    let password = format!("{MARK}-a@{MARK}-b/{MARK}-c");
    let fixture = marked("secrets_url");
    let rest = "@127.0.0.1:9/db";
    for bad in [
        password.clone(),
        format!("{MARK}/{MARK}"),
        format!("{MARK}@{MARK}/{MARK}?{MARK}"),
        format!("{MARK}#{MARK}/{MARK}"),
        format!("{MARK}?{MARK}"),
        format!("12?{MARK}={MARK}"),
        format!("{MARK}:{MARK}/{MARK}"),
        format!("{MARK}%zz{MARK}"),
    ] {
        let url = format!("postgres://u:{bad}{rest}");
        let output = fixture.command(&["migrate"]).env("POSTRIDER_DATABASE_URL", &url).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains(MARK), "{url}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{url}: {stderr}");
        assert!(stderr.contains("percent-encode"), "{url}: {stderr}");
    }
}

/// A URL typed where it does not belong.
#[test]
fn the_password_in_a_misplaced_url_is_not_shown() {
    let fixture = marked("secrets_place");
    let url = url(&fixture, &format!(":{MARK}-postgres"));
    for name in [
        "POSTRIDER_DATABASE_URL_FILE",
        "POSTRIDER_BROKERS",
        "POSTRIDER_SLOT",
        "POSTRIDER_TABLES",
        "POSTRIDER_HTTP_LISTEN",
        "POSTRIDER_CONFIG",
        "PGPASSFILE",
    ] {
        let mut command = fixture.command(&["migrate"]);
        let output = command.env(name, &url).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains(MARK), "{name}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains(name), "{name}: {stderr}");
    }
}

#[test]
fn a_password_file_that_others_can_read_is_not_used() {
    let mut fixture = marked("secrets_open");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    std::fs::write(&file, format!("*:*:*:*:{MARK}-postgres\n")).unwrap();
    let without = url(&fixture, "");
    fixture.set("POSTRIDER_DATABASE_URL", &without);
    fixture.set("HOME", &home.path().display().to_string());
    fixture.set("POSTRIDER_LOG", "info");
    set_mode(&file, 0o640);
    // Like libpq: a warning, and then without a password.
    let output = fixture.run(&["migrate"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(".pgpass") && stderr.contains("chmod 0600"), "{stderr}");
    // A file that is named explicitly is required.
    fixture.set("PGPASSFILE", &file.display().to_string());
    let output = fixture.run(&["migrate"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("PGPASSFILE") && stderr.contains("chmod 0600"), "{stderr}");
    set_mode(&file, 0o600);
    fixture.migrate();
    fixture.unset("PGPASSFILE");
    fixture.migrate();
}
