//! What the server must prove, mode by mode.

use super::{BINARY, ENCRYPTED, TlsServer, expired, good, publish};
use crate::harness::halt::assert_halts_at_start;
use crate::startup::write_event;
use testkit::certificates::Authority;
use testkit::fixture::Fixture;

const ALL_ENCRYPTED: (i64, i64) = (2, 0);
const NONE_ENCRYPTED: (i64, i64) = (0, 2);

#[track_caller]
fn check_works(server: &TlsServer, name: &str, more: &str, expect: (i64, i64)) {
    let mut fixture = server.fixture(name);
    let options = server.options(&fixture, "postgres", &format!("password=postgres {more}"));
    assert_eq!(publish(&mut fixture, &options), expect, "(with TLS, without)");
}

#[track_caller]
fn check_refused(server: &TlsServer, name: &str, more: &str, what: &str, fix: &str) {
    let mut fixture = server.fixture(name);
    write_event(&fixture, "anything");
    let options = server.options(&fixture, "postgres", &format!("password=postgres {more}"));
    fixture.set("POSTRIDER_DATABASE_URL", &options);
    assert_halts_at_start(&mut fixture, what, fix);
    let output = fixture.run(&["migrate"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "migrate accepts what run refuses: {stderr}");
    assert!(stderr.contains(what) && stderr.contains(fix), "{stderr}");
}

#[test]
fn disable_asks_for_nothing() {
    check_works(good(), "tls_disable", "sslmode=disable", NONE_ENCRYPTED);
}

#[test]
fn prefer_is_the_default_and_encrypts_where_the_server_can() {
    check_works(good(), "tls_prefer", "", ALL_ENCRYPTED);
}

#[test]
fn require_encrypts_and_accepts_any_certificate() {
    check_works(expired(), "tls_require", "sslmode=require", ALL_ENCRYPTED);
}

#[test]
fn verify_ca_accepts_the_authority_for_any_host() {
    let server = good();
    let mut fixture = server.fixture("tls_ca");
    let (port, database, root) = (server.server.port(), fixture.database(), server.root());
    let options = format!(
        "postgres://postgres:postgres@127.0.0.1:{port}/{database}?sslmode=verify-ca&sslrootcert={root}"
    );
    assert_eq!(publish(&mut fixture, &options), ALL_ENCRYPTED);
}

#[test]
fn verify_full_accepts_the_authority_for_the_host_of_the_certificate() {
    let more = format!("sslmode=verify-full sslrootcert={}", good().root());
    check_works(good(), "tls_full", &more, ALL_ENCRYPTED);
}

#[test]
fn an_address_without_a_name_is_encrypted_too() {
    let server = good();
    for mode in ["", "sslmode=require"] {
        let mut fixture = server.fixture("tls_address");
        let (port, database) = (server.server.port(), fixture.database());
        let options = format!(
            "hostaddr=127.0.0.1 port={port} dbname={database} user=postgres password=postgres {mode}"
        );
        assert_eq!(publish(&mut fixture, &options), ALL_ENCRYPTED, "{mode}");
    }
}

#[test]
fn libpqs_variables_do_the_same() {
    let server = good();
    let mut fixture = server.fixture("tls_variables");
    fixture.set("PGSSLMODE", "verify-full").set("PGSSLROOTCERT", &server.root());
    fixture.set("PGPASSWORD", "postgres");
    let options = server.options(&fixture, "postgres", "");
    assert_eq!(publish(&mut fixture, &options), ALL_ENCRYPTED);
}

#[test]
fn passwords_are_bound_to_the_servers_certificate() {
    let more = "sslmode=require channel_binding=require";
    check_works(good(), "tls_binding", more, ALL_ENCRYPTED);
    let more = "sslmode=require channel_binding=disable";
    check_works(good(), "tls_no_binding", more, ALL_ENCRYPTED);
}

#[test]
fn a_binding_that_is_required_needs_tls() {
    let more = "sslmode=disable channel_binding=require";
    check_refused(good(), "tls_unbound", more, "channel binding", "sslmode=require");
}

#[test]
fn an_unknown_authority_is_refused() {
    let other = good().write("other.crt", &Authority::new("somebody else").pem());
    for mode in ["verify-ca", "verify-full", "require"] {
        let more = format!("sslmode={mode} sslrootcert={other}");
        let what = "certificate verify failed";
        check_refused(good(), "tls_wrong_ca", &more, what, "sslrootcert");
    }
}

#[test]
fn an_authority_unknown_to_the_system_is_refused() {
    for more in ["sslmode=verify-full", "sslrootcert=system"] {
        let what = "certificate verify failed";
        check_refused(good(), "tls_system", more, what, "sslrootcert");
    }
}

#[test]
fn the_systems_authorities_are_accepted() {
    let server = good();
    let mut fixture = server.fixture("tls_system_good");
    // OpenSSL's own variable for where the system keeps them.
    fixture.set("SSL_CERT_FILE", &server.root());
    let options = server.options(&fixture, "postgres", "password=postgres sslrootcert=system");
    assert_eq!(publish(&mut fixture, &options), ALL_ENCRYPTED);
    let log = fixture.relay().log();
    assert!(log.contains("tls=\"verify-full\""), "{log}");
}

#[test]
fn the_certificate_of_another_host_is_refused() {
    let server = good();
    let mut fixture = server.fixture("tls_host");
    write_event(&fixture, "anything");
    let (port, root) = (server.server.port(), server.root());
    let database = fixture.database().to_owned();
    for host in ["127.0.0.1", "postgres.example hostaddr=127.0.0.1"] {
        let options = format!(
            "host={host} port={port} dbname={database} user=postgres password=postgres \
             sslmode=verify-full sslrootcert={root}"
        );
        fixture.set("POSTRIDER_DATABASE_URL", &options);
        assert_halts_at_start(
            &mut fixture,
            "mismatch",
            "a host name listed in the server's certificate",
        );
    }
}

#[test]
fn an_expired_certificate_is_refused() {
    let more = format!("sslmode=verify-ca sslrootcert={}", expired().root());
    let what = "certificate has expired";
    check_refused(expired(), "tls_expired", &more, what, "renew the server's certificate");
}

#[test]
fn a_server_without_tls_is_refused() {
    let mut fixture = Fixture::new(BINARY, "tls_none");
    write_event(&fixture, "anything");
    let url = fixture.postgres().url(fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &format!("{url}?sslmode=require"));
    assert_halts_at_start(&mut fixture, "server does not support TLS", "ssl = on");
    let options = format!("{url}?sslmode=prefer");
    assert_eq!(publish(&mut fixture, &options), NONE_ENCRYPTED);
}

#[test]
fn a_server_that_requires_tls_is_reported() {
    let server = good();
    let mut fixture = server.fixture("tls_wanted");
    write_event(&fixture, "anything");
    let options = server.options(&fixture, ENCRYPTED, "password=postgres sslmode=disable");
    fixture.set("POSTRIDER_DATABASE_URL", &options);
    assert_halts_at_start(&mut fixture, "no encryption", "sslmode=require");
    let options = server.options(&fixture, ENCRYPTED, "password=postgres sslmode=require");
    assert_eq!(publish(&mut fixture, &options), ALL_ENCRYPTED);
}

/// Anybody can have a certificate of a public authority: without names it proves nothing.
#[test]
fn an_authority_must_be_named_if_names_are_not_checked() {
    let server = good();
    let mut fixture = server.fixture("no_authority");
    let options = server.options(&fixture, ENCRYPTED, "password=postgres sslmode=verify-ca");
    fixture.set("POSTRIDER_DATABASE_URL", &options);
    let output = fixture.run(&["run"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("sslmode=verify-ca needs sslrootcert"), "{stderr}");
}
