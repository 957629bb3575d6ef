//! The relay authenticates with a certificate instead of a password.

use std::path::Path;

use super::{CERTIFIED, good, publish};
use crate::harness::halt::assert_halts_at_start;
use crate::startup::secrets::assert_silent_about;
use crate::startup::write_event;
use testkit::certificates::{Authority, Wanted};
use testkit::mode::set_mode;

const ROLE: Wanted<'static> = Wanted { name: CERTIFIED, hosts: &[], days_left: 10 };

#[test]
fn the_right_certificate_is_accepted() {
    let server = good();
    let mut fixture = server.fixture("cert_right");
    let identity = server.identity("right", &server.authority.issue(ROLE));
    let more = format!("{identity} sslmode=verify-full sslrootcert={}", server.root());
    let options = server.options(&fixture, CERTIFIED, &more);
    assert_eq!(publish(&mut fixture, &options), (2, 0));
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let server = good();
    let mut fixture = server.fixture("cert_renewed");
    let identity = server.identity("renewed", &server.authority.issue(ROLE));
    let options = server.options(&fixture, CERTIFIED, &format!("{identity} sslmode=require"));
    assert_eq!(publish(&mut fixture, &options), (2, 0));
    let serial = |fixture: &testkit::fixture::Fixture| -> Option<String> {
        let sql = "SELECT client_serial::text FROM pg_stat_ssl JOIN pg_replication_slots
            ON active_pid = pid WHERE slot_name = $1";
        let row = fixture.client().query_opt(sql, &[&fixture.slot()]).unwrap();
        row.and_then(|row| row.get(0))
    };
    let before = serial(&fixture).expect("the walsender's certificate");
    server.identity("renewed", &server.authority.issue(ROLE));
    let sql = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
        WHERE slot_name = $1";
    fixture.client().execute(sql, &[&fixture.slot()]).unwrap();
    testkit::wait::wait_until("the new certificate in use", super::SOON, || {
        serial(&fixture).is_some_and(|serial| serial != before)
    });
}

#[test]
fn an_encrypted_key_is_decrypted_with_its_password() {
    let server = good();
    let mut fixture = server.fixture("cert_locked");
    let mut issued = server.authority.issue(ROLE);
    issued.lock("open-sesame");
    let identity = server.identity("locked", &issued);
    let more = format!("{identity} sslpassword=open-sesame sslmode=require");
    let options = server.options(&fixture, CERTIFIED, &more);
    // Dependencies log too.
    fixture.set("POSTRIDER_LOG", "postrider=trace,trace");
    assert_eq!(publish(&mut fixture, &options), (2, 0));
    assert_silent_about("open-sesame", fixture.relay());
}

#[test]
fn a_missing_certificate_is_reported() {
    let server = good();
    let mut fixture = server.fixture("cert_none");
    write_event(&fixture, "anything");
    let options = server.options(&fixture, CERTIFIED, "sslmode=require");
    fixture.set("POSTRIDER_DATABASE_URL", &options);
    assert_halts_at_start(&mut fixture, "valid client certificate", "sslcert");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_reported() {
    let server = good();
    let mut fixture = server.fixture("cert_unknown");
    write_event(&fixture, "anything");
    let identity = server.identity("unknown", &Authority::new("somebody else").issue(ROLE));
    let options = server.options(&fixture, CERTIFIED, &format!("{identity} sslmode=require"));
    fixture.set("POSTRIDER_DATABASE_URL", &options);
    assert_halts_at_start(&mut fixture, "unknown ca", "sslcert");
}

#[test]
fn a_certificate_of_another_role_is_reported() {
    let server = good();
    let mut fixture = server.fixture("cert_other");
    write_event(&fixture, "anything");
    let issued = server.authority.issue(Wanted { name: "postgres", ..ROLE });
    let identity = server.identity("other", &issued);
    let options = server.options(&fixture, CERTIFIED, &format!("{identity} sslmode=require"));
    fixture.set("POSTRIDER_DATABASE_URL", &options);
    let what = "certificate authentication failed for user \"certified\"";
    assert_halts_at_start(&mut fixture, what, "sslcert");
}

#[test]
fn invalid_certificate_files_are_bad_configuration() {
    let server = good();
    let mut fixture = server.fixture("cert_broken");
    let right = server.authority.issue(ROLE);
    let other = server.authority.issue(ROLE);
    let certificate = server.write("pair.crt", &right.certificate);
    let key = server.write("pair.key", &other.key);
    let junk = server.write("junk.pem", b"hunter2");
    let check = |fixture: &mut testkit::fixture::Fixture, more: &str, expect: &str| {
        let options = server.options(fixture, CERTIFIED, more);
        fixture.set("POSTRIDER_DATABASE_URL", &options);
        let output = fixture.run(&["run"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expect), "{stderr}");
        assert!(!stderr.contains("hunter2") && !stderr.contains("open-sesame"), "{stderr}");
    };
    let mismatch = format!("sslcert={certificate} sslkey={key}");
    check(&mut fixture, &mismatch, "is not the key of sslcert");
    let no_key = format!("sslcert={certificate} sslkey={junk}");
    check(&mut fixture, &no_key, "is not a PEM private key");
    let no_certificate = format!("sslcert={junk} sslkey={key}");
    check(&mut fixture, &no_certificate, "is not a PEM certificate");
    let mut locked = server.authority.issue(ROLE);
    locked.lock("open-sesame");
    let locked = server.identity("broken", &locked);
    check(&mut fixture, &locked, "or sslpassword does not decrypt it");
    let no_root = format!("sslmode=verify-full sslrootcert={junk}");
    check(&mut fixture, &no_root, "holds no PEM certificates");
    // libpq's rule: readable only by its owner, or by root's group.
    let open = server.write("open.key", &right.key);
    set_mode(Path::new(&open), 0o644);
    let open = format!("sslcert={certificate} sslkey={open}");
    check(&mut fixture, &open, "can be read by others");
}
