//! Questions to a registry on a socket of its own.

use std::path::PathBuf;

use postrider_core::envelope::Schema;
use testkit::certificates::{Authority, Wanted};
use testkit::registry_stub::{Behaviour, RegistryStub};

use super::*;

const GUID: &str = "00010203-0405-0607-0809-0a0b0c0d0e0f";

fn config(stub: &RegistryStub) -> RegistryConfig {
    RegistryConfig {
        is_tls: stub.url().starts_with("https"),
        host: "localhost".to_owned(),
        port: stub.port(),
        base_path: String::new(),
        credentials: None,
        ca: None,
    }
}

#[track_caller]
fn assert_fails(answer: Result<Answer, LookupError>, expect: &str, concerns_all: bool, fix: &str) {
    let error = answer.expect_err(expect);
    let text = error.to_string();
    assert!(text.contains(expect), "{expect:?} is not in {text:?}");
    assert_eq!(error.concerns_all(), concerns_all, "{text}");
    assert!(error.fix().contains(fix), "{fix:?} is not in {:?}", error.fix());
}

#[tokio::test]
async fn the_newest_schema_of_any_subject() {
    let stub = RegistryStub::start();
    let client = Client::new(&config(&stub));
    for subject in ["orders-value", "a/b c%?#&", "größe", ":.ctx:s", "..x"] {
        assert_eq!(client.latest(subject).await.unwrap(), Answer::Unknown);
        stub.register(subject, 7, None);
        let expect = Answer::Schema(Schema { id: 7, guid: None });
        assert_eq!(client.latest(subject).await.unwrap(), expect);
        assert_eq!(stub.asked(subject), 2, "{subject}");
    }
    stub.register("s", u32::MAX, Some(GUID));
    let guid = Some(std::array::from_fn(|at| u8::try_from(at).unwrap()));
    let expect = Answer::Schema(Schema { id: u32::MAX, guid });
    assert_eq!(client.latest("s").await.unwrap(), expect);
}

#[tokio::test]
async fn credentials_are_sent() {
    let stub = RegistryStub::start();
    stub.register("s", 7, None);
    stub.require("me", "pässword:@/");
    let mut config = config(&stub);
    let fix = "right user and password";
    assert_fails(Client::new(&config).latest("s").await, "status 401", true, fix);
    config.credentials = Some(("me".to_owned(), "pässword:@/".to_owned()));
    assert!(Client::new(&config).latest("s").await.is_ok());
    config.base_path = "/wrong".to_owned();
    assert_fails(Client::new(&config).latest("s").await, "status 404", false, "with the path");
}

#[tokio::test]
async fn answers_of_other_servers() {
    const LONG: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400000\r\n";
    let long: &'static str = format!("{LONG}{}", " ".repeat(4 * 1024 * 1024)).leak();
    let mut stub = RegistryStub::start();
    let client = Client::new(&config(&stub));
    for (behaviour, expect, concerns_all, fix) in [
        (Behaviour::Status(500), "status 500", false, "registry's log"),
        (Behaviour::Status(503), "status 503", true, "registry's log"),
        (Behaviour::Status(302), "status 302", false, "redirects are not followed"),
        (Behaviour::Status(403), "status 403", false, "allow the user"),
        (Behaviour::Status(200), "not that of a schema registry", false, "with the path"),
        (Behaviour::Says("220 smtp.example ESMTP\r\n"), "connection broke", true, "its address"),
        (
            Behaviour::Says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
            "broke",
            true,
            "address",
        ),
        (Behaviour::Says(""), "connection broke", true, "its address"),
        (Behaviour::Says(long), "longer than 2048 KiB", false, "with the path"),
        (Behaviour::Silent, "no answer within 5 s", false, "its address"),
    ] {
        stub.behave(behaviour);
        assert_fails(client.latest("s").await, expect, concerns_all, fix);
    }
    stub.stop();
    assert_fails(client.latest("s").await, "can't connect", true, "that the registry runs");
}

#[tokio::test]
async fn an_encrypted_registry_proves_who_it_is() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let wanted = Wanted { name: "registry", hosts: &["localhost"], days_left: 20 };
    let stub = RegistryStub::start_tls(&ours.issue(wanted));
    stub.register("s", 7, None);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, authority: &Authority| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, authority.pem()).unwrap();
        path
    };
    let good = RegistryConfig { ca: Some(file("ours", &ours)), ..config(&stub) };
    assert!(Client::new(&good).latest("s").await.is_ok());
    let unreadable = Some(folder.path().join("none"));
    let of_other = Some(file("other", &other));
    for (config, expect, fix) in [
        (RegistryConfig { ca: of_other, ..good.clone() }, "certificate is refused", "registry_ca"),
        (RegistryConfig { ca: None, ..good.clone() }, "certificate is refused", "registry_ca"),
        (
            RegistryConfig { host: "127.0.0.1".to_owned(), ..good.clone() },
            "certificate is refused",
            "host name that is in the certificate",
        ),
        (RegistryConfig { ca: unreadable, ..good.clone() }, "can't be read", "readable file"),
        (RegistryConfig { is_tls: false, ..good.clone() }, "connection broke", "its address"),
    ] {
        assert_fails(Client::new(&config).latest("s").await, expect, true, fix);
    }
    let plain = RegistryStub::start();
    plain.behave(Behaviour::Says("HTTP/1.1 400 Bad Request\r\n\r\n"));
    let good = RegistryConfig { port: plain.port(), ..good };
    assert_fails(Client::new(&good).latest("s").await, "no TLS connection", true, "http://");
}

#[test]
fn ipv6_addresses_have_brackets_in_requests() {
    let config = RegistryConfig {
        is_tls: false,
        host: "::1".to_owned(),
        port: 8081,
        base_path: "/apis/v7".to_owned(),
        credentials: None,
        ca: None,
    };
    let request = Client::new(&config).request("a.b-c").unwrap();
    assert_eq!(request.headers()[HOST], "[::1]:8081");
    assert_eq!(request.uri(), "/apis/v7/subjects/a.b-c/versions/latest");
}
